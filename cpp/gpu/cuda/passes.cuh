// Passes on a GPU; see core/passes/passes.hpp. All of them are queued on one stream, and only what returns a number
// waits for it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "core/host_vector.hpp"
#include "core/interrupt.hpp"
#include "core/passes/passes.hpp"
#include "gpu/cuda/check.hpp"
#include "gpu/cuda/distinct.cuh"
#include "gpu/cuda/pool.hpp"
#include "gpu/cuda/scans.hpp"
#include "gpu/cuda/warp.cuh"
#include "gpu/cuda/warp_lanes.cuh"
#include "gpu/runtime.hpp"
#include "gpu/stream.hpp"
#include "gpu/transfer.hpp"

namespace spmvgpu::gpu {

template <class Body>
__global__ void __launch_bounds__(kPassThreads) each_thread_per_element(std::int64_t n, Body body) {
    const std::int64_t i = std::int64_t(blockIdx.x) * kPassThreads + threadIdx.x;
    if (i < n) body(i);
}

template <class T>
__global__ void __launch_bounds__(kPassThreads) fill_thread_per_element(T* to, std::int64_t n, T value) {
    const std::int64_t i = std::int64_t(blockIdx.x) * kPassThreads + threadIdx.x;
    if (i < n) to[i] = value;
}

// row_of_entry() by a warp, which looks at as many places at once as it has lanes.
static __device__ index_t row_of_entry_by_warp(const index_t* row_offsets, index_t rows, index_t entry) {
    std::int64_t begin = 0, end = std::int64_t(rows) + 1;  // the first row that begins behind the entry is between
    while (begin < end) {
        const std::int64_t step = (end - begin + kWarp - 1) / kWarp;
        const std::int64_t place = begin + (threadIdx.x % kWarp + 1) * step - 1;
        const unsigned behind = __ballot_sync(kAllLanes, place >= end || row_offsets[place] > entry);
        if (behind == 0) return static_cast<index_t>(end) - 1;
        begin += (__ffs(static_cast<int>(behind)) - 1) * step;
        if (begin + step - 1 < end) end = begin + step - 1;
    }
    return static_cast<index_t>(begin) - 1;
}

// The largest of the numbers, not negative, of the threads of a block before each one; 0 of the first thread.
__device__ inline index_t largest_before(index_t own) {
    __shared__ index_t of_warps[kPassThreads / kWarp];
    const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
    for (int step = 1; step < kWarp; step *= 2) {
        const index_t other = __shfl_up_sync(kAllLanes, own, step);
        if (lane >= step) own = max(own, other);
    }
    if (lane == kWarp - 1) of_warps[warp] = own;
    index_t before = __shfl_up_sync(kAllLanes, own, 1);
    if (lane == 0) before = 0;
    __syncthreads();
    for (int w = 0; w < warp; ++w) before = max(before, of_warps[w]);
    return before;
}

// A block finds the rows of its first and of its last entry. Every row between them marks where it begins, and the row
// of an entry is the last one that did so up to there: that takes fewer steps than a search for each entry.
template <class Body>
__global__ void __launch_bounds__(kPassThreads)
    each_entry_thread_per_entry(index_t rows, const index_t* row_offsets, index_t nnz, Body body) {
    __shared__ index_t bounds[2];
    __shared__ alignas(16) index_t rows_of[kRowsPassEntries * kPassThreads];  // less the first
    const std::int64_t begin = std::int64_t(blockIdx.x) * kRowsPassEntries * kPassThreads;
    const std::int64_t stop = begin + kRowsPassEntries * kPassThreads, end = stop < nnz ? stop : nnz;
    if (threadIdx.x < 2 * kWarp) {
        const auto entry = static_cast<index_t>(threadIdx.x < kWarp ? begin : end - 1);
        const index_t row = row_of_entry_by_warp(row_offsets, rows, entry);
        if (threadIdx.x % kWarp == 0) bounds[threadIdx.x / kWarp] = row;
    }
    constexpr int kFours = kRowsPassEntries / 4;
    int4* const own = reinterpret_cast<int4*>(rows_of) + threadIdx.x * kFours;
    for (int i = 0; i < kFours; ++i) own[i] = {0, 0, 0, 0};
    __syncthreads();
    const index_t first = bounds[0], last = bounds[1];
    for (std::int64_t row = std::int64_t(first) + 1 + threadIdx.x; row <= last; row += kPassThreads) {
        const index_t place = row_offsets[row];
        if (row_offsets[row + 1] > place) rows_of[place - begin] = static_cast<index_t>(row - first);
    }
    __syncthreads();
    int4 fours[kFours];
    index_t largest = 0;
    for (int i = 0; i < kFours; ++i) {
        fours[i] = own[i];
        for (int* const number : {&fours[i].x, &fours[i].y, &fours[i].z, &fours[i].w}) {
            *number = largest = max(largest, *number);
        }
    }
    const index_t before = largest_before(largest);
    for (int i = 0; i < kFours; ++i) {
        const int4 here = fours[i];
        own[i] = {max(here.x, before), max(here.y, before), max(here.z, before), max(here.w, before)};
    }
    __syncthreads();
    for (std::int64_t i = begin + threadIdx.x; i < end; i += kPassThreads) {
        body(first + rows_of[i - begin], static_cast<index_t>(i));
    }
}

// Where blocks leave their sums: in a place for each, or all in one.
template <class Sum>
struct SumOfEach {
    Sum* sums;
    __device__ void take(const Sum& sum) const { sums[blockIdx.x] = sum; }
};
struct SumOfAll {
    std::int64_t* all;
    __device__ void take(std::int64_t sum) const {
        if (sum != 0) atomicAdd(reinterpret_cast<unsigned long long*>(all), static_cast<unsigned long long>(sum));
    }
};

// Leaves the sum of what the threads of a block have.
template <class Sum, class Place>
__device__ __forceinline__ void leave_sum_of_block(const Sum& own, const Place& place) {
    __shared__ alignas(16) unsigned char memory[kPassThreads * sizeof(Sum)];  // Sum has initialisers
    Sum* const shared = reinterpret_cast<Sum*>(memory);
    shared[threadIdx.x] = own;
    for (int half = kPassThreads / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    }
    if (threadIdx.x == 0) place.take(shared[0]);
}

// Where sums are small, a thread has several elements at a time, so that the reads of one do not wait for those of
// another.
template <class Sum, class Place, class Body>
__global__ void __launch_bounds__(kPassThreads) reduce_grid_stride(std::int64_t n, Place place, Body body) {
    Sum sum{};
    const std::int64_t stride = std::int64_t(gridDim.x) * kPassThreads;
    std::int64_t i = std::int64_t(blockIdx.x) * kPassThreads + threadIdx.x;
    if constexpr (sizeof(Sum) <= 2 * sizeof(std::int64_t)) {
        for (; i + (kPassEntries - 1) * stride < n; i += kPassEntries * stride) {
            Sum some[kPassEntries];
#pragma unroll
            for (int j = 0; j < kPassEntries; ++j) some[j] = body(i + j * stride);
#pragma unroll
            for (int j = 0; j < kPassEntries; ++j) sum += some[j];
        }
    }
    for (; i < n; i += stride) sum += body(i);
    leave_sum_of_block(sum, place);
}

// Neighbouring threads read neighbouring entries, whose terms go to shared memory; there a thread adds up those of its
// row. A block has some rows at a time, whose entries are about as many as are staged at once. A term is skewed by one
// place in 16, so that rows of even lengths do not all begin in the same bank.
constexpr int kStagedEntries = kRowsPassEntries * kPassThreads;
constexpr int staged_at(int entry) { return entry + entry / 16; }

template <class Sum, class V, class Place, class Term, class Body>
__global__ void __launch_bounds__(kPassThreads)
    reduce_rows_staged(index_t rows, index_t rows_at_once, const index_t* row_offsets, Place place, Term term,
                       Body body) {
    __shared__ alignas(16) unsigned char memory[staged_at(kStagedEntries) * sizeof(V)];
    V* const staged = reinterpret_cast<V*>(memory);
    Sum sum{};
    for (std::int64_t first = std::int64_t(blockIdx.x) * rows_at_once; first < rows;
         first += std::int64_t(gridDim.x) * rows_at_once) {
        const std::int64_t stop = first + rows_at_once < rows ? first + rows_at_once : rows;
        const std::int64_t row = first + threadIdx.x;
        const std::int64_t begin = row_offsets[first], end = row_offsets[stop];
        const std::int64_t own_begin = row < stop ? row_offsets[row] : end;
        const std::int64_t own_end = row < stop ? row_offsets[row + 1] : end;
        V own(0);
        for (std::int64_t stage = begin; stage < end; stage += kStagedEntries) {
            V terms[kRowsPassEntries];
#pragma unroll
            for (int j = 0; j < kRowsPassEntries; ++j) {
                const std::int64_t k = stage + j * kPassThreads + threadIdx.x;
                terms[j] = k < end ? term(static_cast<index_t>(k)) : V(0);
            }
#pragma unroll
            for (int j = 0; j < kRowsPassEntries; ++j) {
                staged[staged_at(j * kPassThreads + static_cast<int>(threadIdx.x))] = terms[j];
            }
            __syncthreads();
            const auto from =
                static_cast<int>(own_begin > stage ? min(own_begin - stage, std::int64_t(kStagedEntries)) : 0);
            const auto to = static_cast<int>(own_end > stage ? min(own_end - stage, std::int64_t(kStagedEntries)) : 0);
            for (int k = from; k < to; ++k) own += staged[staged_at(k)];
            __syncthreads();
        }
        if (row < stop) sum += body(static_cast<index_t>(row), own);
    }
    leave_sum_of_block(sum, place);
}

template <class Body>
__global__ void __launch_bounds__(kPassThreads) each_warp(std::int64_t n, Body body) {
    const std::int64_t i = (std::int64_t(blockIdx.x) * kPassThreads + threadIdx.x) / kWarp;
    if (i < n) body(WarpLanes{}, i);
}

// A block has few warps: one, for the most memory, or as many as share what another block leaves. Their memory is in
// global memory where shared memory does not hold it.
constexpr int kWarpsWithMemory = 4;

template <class Body>
__global__ void __launch_bounds__(kWarpsWithMemory* kWarp)
    each_warp_with_memory(std::int64_t first, std::int64_t last, Body body, Word* all, std::int64_t words) {
    extern __shared__ double2 dynamic_memory[];
    const int warp = threadIdx.x / kWarp;
    const std::int64_t i = std::int64_t(blockIdx.x) * (blockDim.x / kWarp) + warp;
    if (first + i >= last) return;
    Word* const shared = reinterpret_cast<Word*>(dynamic_memory);
    body(WarpLanes{}, first + i, all == nullptr ? shared + warp * words : all + i * words);
}

template <class Body>
__global__ void __launch_bounds__(kPassThreads) each_few_lanes_with_memory(std::int64_t n, Body body, int words) {
    extern __shared__ double2 dynamic_memory[];
    const int few = threadIdx.x / FewLanes::kCount;
    const std::int64_t i = std::int64_t(blockIdx.x) * (kPassThreads / FewLanes::kCount) + few;
    if (i < n) body(FewLanes{}, i, reinterpret_cast<Word*>(dynamic_memory) + few * words);
}

// Words of memory that begin where any number may.
constexpr std::int64_t kAlignedWords = sizeof(double2) / sizeof(Word);
constexpr std::int64_t aligned_words(std::int64_t words) {
    return (words + kAlignedWords - 1) / kAlignedWords * kAlignedWords;
}

// Results up to this size go by page-locked memory: into other memory the driver copies in steps of its own.
constexpr std::size_t kMailboxBytes = 128 << 10;

class CudaPasses {
public:
    using Lanes = WarpLanes;

    explicit CudaPasses(Device device) : guard_(device), device_(device), leased_(lease_stream(device)) {}

    Stream stream() const { return leased_.get(); }

    // To be called before the results are used on other streams, too.
    void finish() const {
        check(cudaStreamSynchronize(native(stream())), "cudaStreamSynchronize");
        check_interrupt();
    }

    template <class T>
    Array<T> make(std::size_t n) const {
        return Array<T>(n, device_);
    }
    template <class T>
    Array<T> scratch(std::size_t n) const {
        return Array<T>::share(allocate_scratch(n * sizeof(T), device_.ordinal, stream()), n, device_);
    }
    template <class T>
    Array<T> keep(const Array<T>& array) const {
        Array<T> kept = make<T>(array.size());
        copy_async(kept.data(), array.data(), array.bytes(), stream());
        return kept;
    }

    template <class T>
    void fill(T* to, std::int64_t n, T value) const {
        if (n == 0) return;
        fill_thread_per_element<<<blocks_for(n, kPassThreads), kPassThreads, 0, native(stream())>>>(to, n, value);
        check_launch("fill_thread_per_element");
    }

    template <class Body>
    void each(std::int64_t n, const Body& body, std::int64_t /*work*/ = 1) const {
        if (n == 0) return;
        each_thread_per_element<<<blocks_for(n, kPassThreads), kPassThreads, 0, native(stream())>>>(n, body);
        check_launch("each_thread_per_element");
    }

    template <class Body>
    void each_in_step(std::int64_t n, const Body& body, std::int64_t /*work*/ = 1) const {
        if (n == 0) return;
        each_warp<<<blocks_for(n, kPassThreads / kWarp), kPassThreads, 0, native(stream())>>>(n, body);
        check_launch("each_warp");
    }

    template <class Body>
    void each_in_step_with(std::int64_t n, std::int64_t least_words, const Body& body,
                           std::int64_t /*work*/ = 1) const {
        constexpr std::int64_t kMostWordsAtOnce = 1 << 26, kWordsOfSeveral = 6 << 10;
        if (n == 0) return;
        const std::int64_t words = aligned_words(least_words);
        const bool is_shared = words <= kFastWords;
        int warps = 1;
        while (is_shared && warps < kWarpsWithMemory && 2 * warps * words <= kWordsOfSeveral) warps *= 2;
        const int bytes = is_shared ? static_cast<int>(warps * words * sizeof(Word)) : 0;
        const std::int64_t at_once = is_shared ? n : std::min(n, std::max<std::int64_t>(1, kMostWordsAtOnce / words));
        Array<Word> memory = scratch<Word>(is_shared ? 0 : at_once * words);
        allow_shared_bytes(each_warp_with_memory<Body>, bytes);
        for (std::int64_t first = 0; first < n; first += at_once) {
            const std::int64_t last = std::min(n, first + at_once);
            each_warp_with_memory<<<blocks_for(last - first, warps), warps * kWarp, bytes, native(stream())>>>(
                first, last, body, is_shared ? nullptr : memory.data(), words);
            check_launch("each_warp_with_memory");
        }
    }

    template <class Body>
    void each_by_few_with(std::int64_t n, std::int64_t words, const Body& body, std::int64_t /*work*/ = 1) const {
        if (n == 0) return;
        constexpr int kOfBlock = kPassThreads / FewLanes::kCount;
        const auto own_words = static_cast<int>(aligned_words(words));
        const int bytes = kOfBlock * own_words * static_cast<int>(sizeof(Word));
        allow_shared_bytes(each_few_lanes_with_memory<Body>, bytes);
        each_few_lanes_with_memory<<<blocks_for(n, kOfBlock), kPassThreads, bytes, native(stream())>>>(n, body,
                                                                                                       own_words);
        check_launch("each_few_lanes_with_memory");
    }

    template <class Body>
    void each_entry(index_t rows, const index_t* row_offsets, index_t nnz, const Body& body) const {
        if (nnz == 0) return;
        const unsigned blocks = blocks_for(nnz, kPassThreads * kRowsPassEntries);
        each_entry_thread_per_entry<<<blocks, kPassThreads, 0, native(stream())>>>(rows, row_offsets, nnz, body);
        check_launch("each_entry_thread_per_entry");
    }

    template <class Sum, class Body>
    Sum reduce(std::int64_t n, const Body& body, std::int64_t /*work*/ = 1) const {
        return sum_of_blocks<Sum>(blocks_for(n, kPassThreads), [&](unsigned blocks, Sum* sums) {
            launch_reduce<Sum>(n, blocks, SumOfEach<Sum>{sums}, body);
        });
    }

    template <class Body>
    void add(std::int64_t* to, std::int64_t n, const Body& body, std::int64_t /*work*/ = 1) const {
        if (n == 0) return;
        launch_reduce<std::int64_t>(n, std::min(kMostBlocks, blocks_for(n, kPassThreads)), SumOfAll{to}, body);
    }

    template <class Sum, class V, class Term, class Body>
    Sum reduce_rows(index_t rows, const index_t* row_offsets, index_t nnz, const Term& term, const Body& body,
                    std::int64_t /*work*/ = 1) const {
        const index_t at_once = rows_staged(rows, nnz);
        return sum_of_blocks<Sum>(blocks_for(rows, at_once), [&](unsigned blocks, Sum* sums) {
            launch_reduce_rows<Sum, V>(rows, at_once, row_offsets, blocks, SumOfEach<Sum>{sums}, term, body);
        });
    }

    template <class V, class Term, class Body>
    void add_rows(std::int64_t* to, index_t rows, const index_t* row_offsets, index_t nnz, const Term& term,
                  const Body& body, std::int64_t /*work*/ = 1) const {
        constexpr unsigned kMostAdding = 4096;
        if (rows == 0) return;
        const index_t at_once = rows_staged(rows, nnz);
        const unsigned blocks = std::min(kMostAdding, blocks_for(rows, at_once));
        launch_reduce_rows<std::int64_t, V>(rows, at_once, row_offsets, blocks, SumOfAll{to}, term, body);
    }

    template <class T>
    T scan(T* counts, std::int64_t n) const {
        scan_counts(counts, n, device_.ordinal, stream());
        return read(counts + n);
    }

    template <class Key>
    Array<index_t> order_by_key(index_t n, index_t window, index_t largest, const Key& key) const {
        const int key_bits = std::bit_width(static_cast<unsigned>(largest));
        const int bits = key_bits + std::bit_width(static_cast<unsigned>(n == 0 ? 0 : (n - 1) / window));
        return bits <= 32 ? order_by<std::uint32_t>(n, window, key_bits, bits, key)
                          : order_by<std::uint64_t>(n, window, key_bits, bits, key);
    }

    // The set of a group is in shared memory, and its threads are one block, if it fits.
    template <class Group, class Body>
    void distinct(std::int64_t n, std::int64_t most, const Body& body, std::int64_t /*work*/ = 1) const {
        using Slot = SlotOf<Group>;
        constexpr std::size_t kMostShared = 32 << 10;
        if (n == 0) return;
        const int slot_bits = slot_bits_for(most);
        const std::size_t bytes = sizeof(Slot) << slot_bits;
        if (bytes <= kMostShared) {
            distinct_in_shared_memory<Group><<<n, kPassThreads, bytes, native(stream())>>>(slot_bits, body);
            return check_launch("distinct_in_shared_memory");
        }
        Array<Slot> all_slots = scratch<Slot>(std::size_t(n) << slot_bits);
        Slot* const slots = all_slots.data();
        check(cudaMemsetAsync(slots, 0xff, all_slots.bytes(), native(stream())), "cudaMemsetAsync");  // kFreeSlot
        const unsigned blocks = std::bit_ceil(blocks_for(most, kPassThreads * kPassEntries));
        distinct_in_global_memory<Group>
            <<<dim3(blocks, n), kPassThreads, 0, native(stream())>>>(slots, slot_bits, body);
        check_launch("distinct_in_global_memory");
    }

    template <class Next>
    Array<index_t> chain(index_t n, const Next& next) {
        return chain_by_jumps(*this, n, next);
    }

    template <class T>
    T read(const T* from) const {
        T value{};
        download(&value, from, sizeof(T));
        return value;
    }

    template <class T>
    std::vector<T> read_all(const Array<T>& array) const {
        std::vector<T> values(array.size());
        if (array.size() > 0) download(values.data(), array.data(), array.bytes());
        return values;
    }
    template <class T>
    void write_all(Array<T>& array, const T* values) const {
        if (array.size() == 0) return;
        check(cudaMemcpyAsync(array.data(), values, array.bytes(), cudaMemcpyHostToDevice, native(stream())),
              "cudaMemcpyAsync");
        finish();  // the values may go then
    }

    template <class Wide, class Key>
    Array<index_t> order_by(index_t n, index_t window, int key_bits, int bits, const Key& key) const {
        Array<Wide> keys = scratch<Wide>(n), other_keys = scratch<Wide>(n);
        Array<index_t> order = scratch<index_t>(n), other_order = scratch<index_t>(n);
        Wide* const to = keys.data();
        index_t* const places = order.data();
        each(n, [=] SPMVGPU_BODY(std::int64_t i) {
            to[i] = static_cast<Wide>(static_cast<std::uint64_t>(i / window) << key_bits |
                                      static_cast<std::uint64_t>(key(static_cast<index_t>(i))));
            places[i] = static_cast<index_t>(i);
        });
        const bool is_in_other =
            sort_pairs(to, other_keys.data(), places, other_order.data(), n, bits, device_.ordinal, stream());
        return is_in_other ? other_order : order;
    }

private:
    static constexpr unsigned kMostBlocks = 1024;  // that leave sums

    // Rows of a block at a time, whose entries are staged at once, if the rows are about as long as others.
    static index_t rows_staged(index_t rows, index_t nnz) {
        constexpr std::int64_t kLeast = 16, kFull = kStagedEntries / 8 * 7;
        return static_cast<index_t>(std::clamp<std::int64_t>(kFull * rows / std::max(1, nnz), kLeast, kPassThreads));
    }

    template <class Sum, class Launch>
    Sum sum_of_blocks(unsigned wanted, const Launch& launch) const {
        if (wanted == 0) return Sum{};
        const unsigned blocks = std::min(kMostBlocks, wanted);
        Array<Sum> of_blocks = scratch<Sum>(blocks);
        launch(blocks, of_blocks.data());
        HostVector<Sum> sums(blocks);
        download(sums.data(), of_blocks.data(), of_blocks.bytes());
        for (unsigned b = 1; b < blocks; ++b) sums[0] += sums[b];
        return sums[0];
    }

    template <class Sum, class Place, class Body>
    void launch_reduce(std::int64_t n, unsigned blocks, const Place& place, const Body& body) const {
        reduce_grid_stride<Sum><<<blocks, kPassThreads, 0, native(stream())>>>(n, place, body);
        check_launch("reduce_grid_stride");
    }

    template <class Sum, class V, class Place, class Term, class Body>
    void launch_reduce_rows(index_t rows, index_t at_once, const index_t* row_offsets, unsigned blocks,
                            const Place& place, const Term& term, const Body& body) const {
        reduce_rows_staged<Sum, V>
            <<<blocks, kPassThreads, 0, native(stream())>>>(rows, at_once, row_offsets, place, term, body);
        check_launch("reduce_rows_staged");
    }

    void download(void* to, const void* from, std::size_t bytes) const {
        const std::shared_ptr<void> pinned = bytes <= kMailboxBytes ? allocate_pinned(bytes) : nullptr;
        void* const lands = pinned ? pinned.get() : to;
        check(cudaMemcpyAsync(lands, from, bytes, cudaMemcpyDeviceToHost, native(stream())), "cudaMemcpyAsync");
        finish();
        if (pinned) std::memcpy(to, lands, bytes);
    }

    DeviceGuard guard_;
    Device device_;
    std::shared_ptr<void> leased_;
};

}  // namespace spmvgpu::gpu
