// Sweeps on a GPU. Nothing here waits for the device but read_scalars() and download().
#pragma once

#include <algorithm>
#include <cstring>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/array.hpp"
#include "cuda/check.hpp"
#include "cuda/runtime.hpp"
#include "cuda/stream.hpp"
#include "cuda/transfer.hpp"
#include "cuda/warp.cuh"
#include "vector/pace.hpp"
#include "vector/ranks.hpp"
#include "vector/sweep.hpp"

namespace spmvgpu::cuda {

struct SweepTuning {
    static constexpr int kBlockSize = 256;
    static constexpr int kBlocksPerProcessor = 4;  // of one wave, so that all blocks end together
    static constexpr int kInFlight = 4;            // elements per thread: of two float vectors 32 KB a multiprocessor
    static constexpr int kBasisInFlight = 8;       // vectors of a basis that are read together
};

// Where blocks leave their sums for the block that arrives last.
struct Partials {
    double* sums;
    unsigned* arrivals;  // 64 counters, of which sweeps use the first
};

// Whether this block is the last to arrive here; the others' writes before it are visible to it then.
__device__ __forceinline__ bool arrives_last(unsigned* arrivals) {
    __shared__ bool is_last;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        is_last = atomicAdd(arrivals, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!is_last) return false;
    __threadfence();
    if (threadIdx.x == 0) *arrivals = 0;
    return true;
}

template <class W>
__device__ __forceinline__ W load_partial(const W* from) {
    static_assert(sizeof(W) % sizeof(double) == 0);
    W value;
    for (unsigned i = 0; i < sizeof(W) / sizeof(double); ++i) {
        reinterpret_cast<double*>(&value)[i] = __ldcg(reinterpret_cast<const double*>(from) + i);
    }
    return value;
}

// Sum of the k-th numbers that the blocks have left, at partials[k * gridDim.x + block], always added in the same
// order.
template <class W>
__device__ __forceinline__ W sum_of_blocks(const W* partials, int k) {
    W sum{};
    for (unsigned i = threadIdx.x; i < gridDim.x; i += SweepTuning::kBlockSize) {
        sum += load_partial(partials + k * gridDim.x + i);
    }
    const W total = sum_block<W, SweepTuning::kBlockSize>(sum);
    __syncthreads();  // before the next sum takes over the same shared memory
    return total;
}

// The same for `count` numbers of each block, a warp for a sum: one after the other they would take longer than what
// they add up. results[k] is written for all k when it returns.
template <class W>
__device__ __forceinline__ void sums_of_blocks(const W* partials, int count, W* results) {
    constexpr int kInFlight = 8;
    const unsigned lane = threadIdx.x % kWarp;
    for (int k = threadIdx.x / kWarp; k < count; k += SweepTuning::kBlockSize / kWarp) {
        const W* const from = partials + k * gridDim.x;
        W sum{};
        for (unsigned first = lane; first < gridDim.x; first += kInFlight * kWarp) {
            W loaded[kInFlight] = {};
#pragma unroll
            for (int i = 0; i < kInFlight; ++i) {
                if (first + i * kWarp < gridDim.x) loaded[i] = load_partial(from + first + i * kWarp);
            }
#pragma unroll
            for (int i = 0; i < kInFlight; ++i) sum += loaded[i];
        }
        sum = sum_lanes(sum, kWarp);
        if (lane == 0) results[k] = sum;
    }
    __syncthreads();
}

// Sums over a block of kCount numbers of every thread: the k-th thread gets the k-th sum. All threads must call.
template <int kCount, class W>
__device__ __forceinline__ W sum_block_each(const W (&values)[kCount]) {
    constexpr int kWarps = SweepTuning::kBlockSize / kWarp;
    __shared__ W warp_sums[kCount][kWarps];
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
        const W sum = sum_lanes(values[k], kWarp);
        if (threadIdx.x % kWarp == 0) warp_sums[k][threadIdx.x / kWarp] = sum;
    }
    __syncthreads();
    W total{};
    if (threadIdx.x < kCount) {
#pragma unroll
        for (int i = 0; i < kWarps; ++i) total += warp_sums[threadIdx.x][i];
    }
    __syncthreads();  // before the next sums take over the same shared memory
    return total;
}

template <class S, class T, int kReads, unsigned kMissing, int kWrites, class Step, class Then, int... kIndex>
__device__ __forceinline__ void sweep_block(index_t n, S* scalars, const Reads<T, kReads, kMissing>& reads,
                                            const Writes<T, kWrites>& writes, const Step& step, const Then& then,
                                            Partials partials, std::integer_sequence<int, kIndex...>) {
    constexpr int kBlockSize = SweepTuning::kBlockSize, kInFlight = SweepTuning::kInFlight;
    using Result = decltype(step(*scalars, reads.template at<kIndex>(0)...));
    constexpr int kSums = Result::kSums;
    static_assert(kSums <= kMaxSums);
    const S now = *scalars;
    if (now.stopped) return;  // all threads of all blocks alike

    Sums<T, kSums> sums;
    const std::int64_t stride = std::int64_t(gridDim.x) * kBlockSize;
    for (std::int64_t base = std::int64_t(blockIdx.x) * kBlockSize + threadIdx.x; base < n;
         base += kInFlight * stride) {
        T loaded[kInFlight][kReads];
#pragma unroll
        for (int e = 0; e < kInFlight; ++e) {
            const auto i = static_cast<index_t>(base + e * stride);
            if (base + e * stride < n) ((loaded[e][kIndex] = reads.template at<kIndex>(i)), ...);
        }
#pragma unroll
        for (int e = 0; e < kInFlight; ++e) {
            if (base + e * stride >= n) continue;
            const auto i = static_cast<index_t>(base + e * stride);
            const Result result = step(now, loaded[e][kIndex]...);
#pragma unroll
            for (int w = 0; w < kWrites; ++w) writes.to[w][i] = result.written[w];
            sums += result.summands;
        }
    }

    if constexpr (kSums > 0) {
        using W = Wide<T>;
        auto* const of_blocks = reinterpret_cast<W*>(partials.sums);
#pragma unroll
        for (int k = 0; k < kSums; ++k) {
            const W sum = sum_block<W, kBlockSize>(sums.value[k]);
            if (threadIdx.x == 0) of_blocks[k * gridDim.x + blockIdx.x] = sum;
            __syncthreads();  // before the next sum takes over the same shared memory
        }
        if (!arrives_last(partials.arrivals)) return;
#pragma unroll
        for (int k = 0; k < kSums; ++k) sums.value[k] = sum_of_blocks(of_blocks, k);
        if (threadIdx.x == 0) {
            S changed = now;
            then(changed, sums);
            *scalars = changed;
        }
    }
}

template <class S, class T, int kReads, unsigned kMissing, int kWrites, class Step, class Then>
__global__ void __launch_bounds__(SweepTuning::kBlockSize, SweepTuning::kBlocksPerProcessor)
    sweep_grid_stride(index_t n, S* scalars, Reads<T, kReads, kMissing> reads, Writes<T, kWrites> writes, Step step,
                      Then then, Partials partials) {
    sweep_block(n, scalars, reads, writes, step, then, partials, std::make_integer_sequence<int, kReads>{});
}

// Without scalars or sums.
template <class T, int kReads, unsigned kMissing, int kWrites, class Step, int... kIndex>
__global__ void __launch_bounds__(SweepTuning::kBlockSize, SweepTuning::kBlocksPerProcessor)
    each_grid_stride(index_t n, Reads<T, kReads, kMissing> reads, Writes<T, kWrites> writes, Step step,
                     std::integer_sequence<int, kIndex...>) {
    const std::int64_t stride = std::int64_t(gridDim.x) * SweepTuning::kBlockSize;
    for (std::int64_t k = std::int64_t(blockIdx.x) * SweepTuning::kBlockSize + threadIdx.x; k < n; k += stride) {
        const auto i = static_cast<index_t>(k);
        const auto result = step(reads.template at<kIndex>(i)...);
#pragma unroll
        for (int w = 0; w < kWrites; ++w) writes.to[w][i] = result.written[w];
    }
}

struct NoWork {
    template <class... Ignored>
    __device__ void operator()(Ignored&&...) const {}
};

// Every block adds up its elements of all products, a few vectors at a time, and reads w again for the next few.
template <class S, class T, class Then>
__global__ void __launch_bounds__(SweepTuning::kBlockSize, SweepTuning::kBlocksPerProcessor)
    dots_grid_stride(index_t n, S* scalars, Basis<T> basis, int count, const T* w, Wide<T>* results, Then then,
                     Partials partials) {
    constexpr int kBlockSize = SweepTuning::kBlockSize, kVectors = SweepTuning::kBasisInFlight;
    using W = Wide<T>;
    const S now = *scalars;
    if (now.stopped) return;
    auto* const of_blocks = reinterpret_cast<W*>(partials.sums);
    const std::int64_t stride = std::int64_t(gridDim.x) * kBlockSize;
    for (int first = 0; first < count; first += kVectors) {
        W sums[kVectors] = {};
        for (std::int64_t i = std::int64_t(blockIdx.x) * kBlockSize + threadIdx.x; i < n; i += stride) {
            const T own = w[i];
            T loaded[kVectors];
#pragma unroll
            for (int k = 0; k < kVectors; ++k) loaded[k] = first + k < count ? basis[first + k][i] : T(0);
#pragma unroll
            for (int k = 0; k < kVectors; ++k) sums[k] += dot(loaded[k], own);
        }
        const W sum = sum_block_each(sums);
        const int k = first + static_cast<int>(threadIdx.x);
        if (threadIdx.x < kVectors && k < count) of_blocks[k * gridDim.x + blockIdx.x] = sum;
    }
    if (!arrives_last(partials.arrivals)) return;
    sums_of_blocks(of_blocks, count, results);
    if (threadIdx.x == 0) {
        S changed = now;
        then(changed);
        *scalars = changed;
    }
}

template <class S, class T, class Count, class Then>
__global__ void __launch_bounds__(SweepTuning::kBlockSize, SweepTuning::kBlocksPerProcessor)
    combine_grid_stride(index_t n, S* scalars, Basis<T> basis, Count count, const Wide<T>* factors, double sign,
                        T* target, Then then, Partials partials) {
    constexpr int kBlockSize = SweepTuning::kBlockSize, kVectors = SweepTuning::kBasisInFlight;
    using W = Wide<T>;
    const S now = *scalars;
    if (now.stopped) return;
    const int vectors = count(now);
    W sum{};
    const std::int64_t stride = std::int64_t(gridDim.x) * kBlockSize;
    for (std::int64_t i = std::int64_t(blockIdx.x) * kBlockSize + threadIdx.x; i < n; i += stride) {
        T value = target[i];
        for (int first = 0; first < vectors; first += kVectors) {
            T loaded[kVectors];
#pragma unroll
            for (int k = 0; k < kVectors; ++k) loaded[k] = first + k < vectors ? basis[first + k][i] : T(0);
#pragma unroll
            for (int k = 0; k < kVectors; ++k) {
                if (first + k < vectors) value += T(sign * factors[first + k]) * loaded[k];
            }
        }
        target[i] = value;
        sum += square(value);
    }
    const W total = sum_block<W, kBlockSize>(sum);
    auto* const of_blocks = reinterpret_cast<W*>(partials.sums);
    if (threadIdx.x == 0) of_blocks[blockIdx.x] = total;
    if (!arrives_last(partials.arrivals)) return;
    const Sums<T, 1> sums{{sum_of_blocks(of_blocks, 0)}};
    if (threadIdx.x == 0) {
        S changed = now;
        then(changed, sums);
        *scalars = changed;
    }
}

template <class S, class Work>
__global__ void compute_one_thread(S* scalars, Work work) {
    S changed = *scalars;
    work(changed);
    *scalars = changed;
}

// Over ranks, the sums of this one are left in memory, added up by the host, and then used.
template <class W>
struct KeepSums {
    W* to;

    template <class S, class T, int kSums>
    __device__ void operator()(S&, const Sums<T, kSums>& sums) const {
        for (int k = 0; k < kMaxSums; ++k) to[k] = k < kSums ? sums.value[k] : W(0);
    }
};
template <class T, class Then>
struct UseSums {
    // Converts to as many sums as are asked for.
    struct Kept {
        const Wide<T>* from;

        template <int kSums>
        __device__ operator Sums<T, kSums>() const {
            Sums<T, kSums> sums;
            for (int k = 0; k < kSums; ++k) sums.value[k] = from[k];
            return sums;
        }
    };

    Kept kept;
    Then then;

    template <class S>
    __device__ void operator()(S& scalars) const {
        then(scalars, kept);
    }
};

class CudaQueue {
public:
    static constexpr bool kIsGpu = true;

    // Bytes that `partials` takes on a device, for up to so many products with the vectors of a basis at once.
    static std::size_t partial_bytes(int ordinal, int products, std::size_t of_sum) {
        return 256 + max_blocks(ordinal) * std::max(products, kMaxSums) * of_sum;
    }

    // Work goes to the stream. `partials` is memory of partial_bytes(); null if nothing is summed. Sums are over these
    // ranks, for which the host waits at every one of them; null: there is only this one.
    CudaQueue(int ordinal, Stream stream, void* partials, const AddOverRanks* ranks = nullptr)
        : guard_(ordinal),
          max_blocks_(max_blocks(ordinal)),
          stream_(stream),
          ranks_(ranks),
          partials_{partials == nullptr ? nullptr : reinterpret_cast<double*>(static_cast<char*>(partials) + 256),
                    static_cast<unsigned*>(partials)} {
        if (partials != nullptr) check(cudaMemsetAsync(partials, 0, 256, native(stream)), "cudaMemsetAsync");
    }

    Stream stream() const { return stream_; }
    Partials partials() const { return partials_; }

    template <class S, class T, int kReads, unsigned kMissing, int kWrites, class Step, class Then>
    void sweep(S* scalars, index_t n, Reads<T, kReads, kMissing> reads, Writes<T, kWrites> writes, Step step,
               Then then) {
        if constexpr (!std::is_same_v<Then, NoWork> && !std::is_same_v<Then, KeepSums<Wide<T>>>) {
            if (ranks_ != nullptr) {
                return over_ranks<T>(scalars, then, [&](auto keep) { sweep(scalars, n, reads, writes, step, keep); });
            }
        }
        sweep_grid_stride<<<blocks(n), SweepTuning::kBlockSize, 0, native(stream())>>>(n, scalars, reads, writes, step,
                                                                                       then, partials_);
        check_launch("sweep_grid_stride");
    }
    template <class S, class T, int kReads, unsigned kMissing, int kWrites, class Step>
    void sweep(S* scalars, index_t n, Reads<T, kReads, kMissing> reads, Writes<T, kWrites> writes, Step step) {
        sweep(scalars, n, reads, writes, step, NoWork{});
    }
    template <class S, class T, int kReads, unsigned kMissing, class Step, class Then>
    void sweep(S* scalars, index_t n, Reads<T, kReads, kMissing> reads, Step step, Then then) {
        sweep(scalars, n, reads, Writes<T, 0>{}, step, then);
    }

    template <class T, int kReads, unsigned kMissing, int kWrites, class Step>
    void each(index_t n, Reads<T, kReads, kMissing> reads, Writes<T, kWrites> writes, Step step) {
        each_grid_stride<<<blocks(n), SweepTuning::kBlockSize, 0, native(stream())>>>(
            n, reads, writes, step, std::make_integer_sequence<int, kReads>{});
        check_launch("each_grid_stride");
    }

    template <class S, class T, class Then>
    void dots(S* scalars, index_t n, Basis<T> basis, int count, const T* w, Wide<T>* results, Then then) {
        if constexpr (!std::is_same_v<Then, NoWork>) {
            if (ranks_ != nullptr) {
                if (knows_idle(scalars)) return;
                dots(scalars, n, basis, count, w, results, NoWork{});
                add_over_ranks(results, count);
                return compute(scalars, then);
            }
        }
        dots_grid_stride<<<blocks(n), SweepTuning::kBlockSize, 0, native(stream())>>>(n, scalars, basis, count, w,
                                                                                      results, then, partials_);
        check_launch("dots_grid_stride");
    }

    template <class S, class T, class Count, class Then>
    void combine(S* scalars, index_t n, Basis<T> basis, Count count, const Wide<T>* factors, double sign, T* target,
                 Then then) {
        if constexpr (!std::is_same_v<Then, KeepSums<Wide<T>>>) {
            if (ranks_ != nullptr) {
                return over_ranks<T>(
                    scalars, then, [&](auto keep) { combine(scalars, n, basis, count, factors, sign, target, keep); });
            }
        }
        combine_grid_stride<<<blocks(n), SweepTuning::kBlockSize, 0, native(stream())>>>(
            n, scalars, basis, count, factors, sign, target, then, partials_);
        check_launch("combine_grid_stride");
    }

    template <class S, class Work>
    void compute(S* scalars, Work work) {
        compute_one_thread<<<1, 1, 0, native(stream())>>>(scalars, work);
        check_launch("compute_one_thread");
    }

    // False where it could only be asked by waiting, unless ranks wait anyway and must go the same way.
    template <class S>
    bool knows_idle(const S* scalars) {
        return ranks_ != nullptr && read_scalars(scalars).stopped != 0;
    }

    void zero(void* memory, std::size_t bytes) {
        check(cudaMemsetAsync(memory, 0, bytes, native(stream())), "cudaMemsetAsync");
    }

    template <class S>
    void put_scalars(S* to, const S& value) {
        upload(to, &value, sizeof(S));
    }

    // Waits for all that is queued.
    template <class S>
    S read_scalars(const S* from) {
        S value;
        download(&value, from, sizeof(S));
        return value;
    }

    void upload(void* to, const void* from, std::size_t bytes) {
        void* const staging = pinned(bytes);
        std::memcpy(staging, from, bytes);
        check(cudaMemcpyAsync(to, staging, bytes, cudaMemcpyHostToDevice, native(stream())), "cudaMemcpyAsync");
        check(cudaStreamSynchronize(native(stream())), "cudaStreamSynchronize");
    }

    void download(void* to, const void* from, std::size_t bytes) {
        void* const staging = pinned(bytes);
        check(cudaMemcpyAsync(staging, from, bytes, cudaMemcpyDeviceToHost, native(stream())), "cudaMemcpyAsync");
        check(cudaStreamSynchronize(native(stream())), "cudaStreamSynchronize");
        std::memcpy(to, staging, bytes);
    }

    // Iterations are queued in batches, and look() is called between batches only; so a few more are queued than are
    // needed, and their sweeps have to be idle. A long solve looks less often: a sixteenth of its work may be in vain.
    template <class Iterate, class Look>
    void repeat(const Pace& pace, Iterate&& iterate, Look&& look) {
        std::int64_t k = 0;
        if (pace.each) {
            do iterate(k++);
            while (look());
            return;
        }
        constexpr int kDirectBatches = 4;  // a solve that ends within them is over before a graph would pay
        const auto whole = [&](int iterations) { return (iterations + pace.period - 1) / pace.period * pace.period; };
        const int size = whole(pace.every > 0 ? std::min(pace.every, pace.most) : std::min(pace.first, pace.most));
        const auto batch = [&] {
            for (int i = 0; i < size; ++i) iterate(k + i);
        };
        std::optional<Replay> replay;
        std::int64_t batches = 0;
        do {
            const std::int64_t more = std::min<std::int64_t>(batches / 16, std::max(0, pace.most / size - 1));
            const std::int64_t next = batches + 1 + (pace.every > 0 ? 0 : more);
            for (; batches < next; ++batches) {
                replay ? replay->launch() : batch();
                k += size;
            }
            // Recorded while the device is busy with what is queued.
            if (!replay && pace.recordable && batches >= kDirectBatches) replay.emplace(stream(), batch);
        } while (look());
    }

private:
    // A call that sums, which keeps what it sums, and the scalar work with the sums over all ranks.
    template <class T, class S, class Then, class Call>
    void over_ranks(S* scalars, Then then, Call&& call) {
        if (knows_idle(scalars)) return;
        // Behind the counters, where no kernel leaves partial sums any more.
        auto* const sums = reinterpret_cast<Wide<T>*>(partials_.sums);
        call(KeepSums<Wide<T>>{sums});
        add_over_ranks(sums, kMaxSums);
        compute(scalars, UseSums<T, Then>{{sums}, then});
    }
    template <class W>
    void add_over_ranks(W* on_device, int count) {
        std::vector<W> sums(count);
        download(sums.data(), on_device, count * sizeof(W));
        (*ranks_)(reinterpret_cast<double*>(sums.data()), count * static_cast<int>(sizeof(W) / sizeof(double)));
        upload(on_device, sums.data(), count * sizeof(W));
    }

    static std::size_t max_blocks(int ordinal) {
        return SweepTuning::kBlocksPerProcessor * properties(ordinal).multiprocessors;
    }
    unsigned blocks(index_t n) const {
        return std::clamp<unsigned>(blocks_for(n, SweepTuning::kBlockSize), 1u, static_cast<unsigned>(max_blocks_));
    }
    void* pinned(std::size_t bytes) {
        if (bytes > pinned_bytes_) {
            pinned_ = allocate_pinned(bytes);
            pinned_bytes_ = bytes;
        }
        return pinned_.get();
    }

    DeviceGuard guard_;
    std::size_t max_blocks_;
    Stream stream_;
    const AddOverRanks* ranks_;
    Partials partials_;
    std::shared_ptr<void> pinned_;
    std::size_t pinned_bytes_ = 0;
};

}  // namespace spmvgpu::cuda
