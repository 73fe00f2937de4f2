// Passes on a GPU; see core/passes/passes.hpp. All of them are queued on one stream, and only passes that return a
// number wait for it.
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
#include "gpu/cuda/pass_kernels.cuh"
#include "gpu/cuda/pool.hpp"
#include "gpu/cuda/scans.hpp"
#include "gpu/cuda/warp.cuh"
#include "gpu/cuda/warp_lanes.cuh"
#include "gpu/runtime.hpp"
#include "gpu/stream.hpp"
#include "gpu/transfer.hpp"

namespace spmvgpu::gpu {

// Results up to this size go through page-locked memory, because the driver copies into other memory in separate steps.
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
    void each_by_block_with(std::int64_t n, std::int64_t words, const Body& body, std::int64_t /*work*/ = 1) const {
        if (n == 0) return;
        const std::size_t bytes = words * sizeof(Word);
        each_block_with_memory<<<blocks_for(n, 1), kPassThreads, bytes, native(stream())>>>(body);
        check_launch("each_block_with_memory");
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
    void start_scan(T* counts, std::int64_t n) const {
        scan_counts(counts, n, device_.ordinal, stream());
    }
    template <class T>
    T scan(T* counts, std::int64_t n) const {
        start_scan(counts, n);
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
        finish();  // afterwards the values may be freed
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
    static constexpr unsigned kMostBlocks = 1024;  // blocks that leave sums

    // Rows of a block at a time, whose entries are staged at once, if all rows have similar lengths.
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
