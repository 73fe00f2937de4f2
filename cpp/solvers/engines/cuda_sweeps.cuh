// The kernels of sweeps on a GPU; cuda_queue.cuh launches them.
#pragma once

#include <type_traits>
#include <utility>

#include "gpu/cuda/warp.cuh"
#include "solvers/engines/run.hpp"

namespace spmvgpu::gpu {

struct SweepTuning {
    static constexpr int kBlockSize = 256;
    static constexpr int kBlocksPerProcessor = 4;  // in one wave, so that all blocks end together
    static constexpr int kInFlight = 4;            // elements per thread: with two float vectors 32 KB a multiprocessor
    static constexpr int kBasisInFlight = 8;       // vectors of a basis that are read together
};

// The memory where blocks leave their sums for the block that arrives last.
struct Partials {
    double* sums;
    unsigned* arrivals;  // 64 counters; sweeps use the first
};

// Scalar work of the first thread, with the current scalars.
template <class S, class Work, class... Given>
__device__ __forceinline__ void work_on(S* scalars, const S& now, const Work& work, const Given&... given) {
    if (threadIdx.x != 0) return;
    S changed = now;
    work(changed, given...);
    *scalars = changed;
}

// Returns true if this block is the last to arrive here; the others' writes before it are then visible to it.
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

// The first thread of a block gets the sums over all of its threads. All of them must call.
template <int kSums, class W>
__device__ __forceinline__ void sum_over_block(W (&sums)[kSums]) {
    constexpr int kWarps = SweepTuning::kBlockSize / kWarp;
    __shared__ W of_warps[kSums][kWarps];
    const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
#pragma unroll
    for (int k = 0; k < kSums; ++k) {
        const W sum = sum_lanes(sums[k], kWarp);
        if (lane == 0) of_warps[k][warp] = sum;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kSums && warp == 0; ++k) {
        sums[k] = sum_lanes(lane < kWarps ? of_warps[k][lane] : W{}, kWarps);
    }
    __syncthreads();  // the next sums reuse the shared memory
}

// The sums of `count` numbers of each block, a warp for a sum: one after the other they would take longer than the
// sweep. results[k] is written for all k when it returns.
template <int kBlockSize, class W>
__device__ __forceinline__ void sums_of_blocks(const W* partials, int count, W* results) {
    constexpr int kInFlight = 8;
    const unsigned lane = threadIdx.x % kWarp;
    for (int k = threadIdx.x / kWarp; k < count; k += kBlockSize / kWarp) {
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
template <int kBlockSize, int kCount, class W>
__device__ __forceinline__ W sum_block_each(const W (&values)[kCount]) {
    constexpr int kWarps = kBlockSize / kWarp, kLanesEach = kWarp / kCount;
    __shared__ W warp_sums[kCount][kWarps];
    const int lane = threadIdx.x % kWarp;
    const W sum = sum_lanes_each(values);
    if (lane % kLanesEach == 0) warp_sums[lane / kLanesEach][threadIdx.x / kWarp] = sum;
    __syncthreads();
    W total{};
    if (threadIdx.x < kCount) {
#pragma unroll
        for (int i = 0; i < kWarps; ++i) total += warp_sums[threadIdx.x][i];
    }
    __syncthreads();  // the next sums reuse the shared memory
    return total;
}

// The last element of a thread; negative if it has none.
__device__ __forceinline__ std::int64_t last_element(index_t n, std::int64_t first, std::int64_t stride) {
    return first < n ? first + (n - 1 - first) / stride * stride : -1;
}

// Applies the step to the elements base, base + stride, ... from 0 to n, and returns their sums. An element always
// belongs to the same thread. A negative stride traverses them backwards, from the last one of a thread on: the L2
// holds the end of the vectors that a product has used.
template <class Result, int kInFlight, class S, class T, int kReads, unsigned kMissing, int kWrites, class Step,
          int... kIndex>
__device__ __forceinline__ auto sweep_elements(index_t n, std::int64_t base, std::int64_t stride, const S& now,
                                               const Reads<T, kReads, kMissing>& reads,
                                               const Writes<T, kWrites>& writes, const Step& step,
                                               std::integer_sequence<int, kIndex...>) {
    Sums<T, Result::kSums> sums;
    const auto is_element = [n](std::int64_t i) { return static_cast<std::uint64_t>(i) < n; };
    for (; is_element(base); base += kInFlight * stride) {
        T loaded[kInFlight][kReads];
#pragma unroll
        for (int e = 0; e < kInFlight; ++e) {
            const auto i = static_cast<index_t>(base + e * stride);
            if (is_element(base + e * stride)) ((loaded[e][kIndex] = reads.template at<kIndex>(i)), ...);
        }
#pragma unroll
        for (int e = 0; e < kInFlight; ++e) {
            if (!is_element(base + e * stride)) continue;
            const auto i = static_cast<index_t>(base + e * stride);
            const Result result = step(now, loaded[e][kIndex]...);
#pragma unroll
            for (int w = 0; w < kWrites; ++w) writes.to[w][i] = result.written[w];
            sums += result.summands;
        }
    }
    return sums;
}

// Adds up the sums of all threads; the block that arrives last does the scalar work with them.
template <class S, class T, int kSums, class Then>
__device__ __forceinline__ void work_with_sums(S* scalars, const S& now, Sums<T, kSums> sums, const Then& then,
                                               const Partials& partials) {
    auto* const of_blocks = reinterpret_cast<Wide<T>*>(partials.sums);
    sum_over_block(sums.value);
#pragma unroll
    for (int k = 0; k < kSums && threadIdx.x == 0; ++k) of_blocks[k * gridDim.x + blockIdx.x] = sums.value[k];
    if (!arrives_last(partials.arrivals)) return;
    sums = {};
    for (unsigned i = threadIdx.x; i < gridDim.x; i += SweepTuning::kBlockSize) {  // always in the same order
#pragma unroll
        for (int k = 0; k < kSums; ++k) sums.value[k] += load_partial(of_blocks + k * gridDim.x + i);
    }
    sum_over_block(sums.value);
    work_on(scalars, now, then, sums);
}

template <class S, class T, int kReads, unsigned kMissing, int kWrites, class Step, class Then, int... kIndex>
__device__ __forceinline__ void sweep_block(index_t n, S* scalars, const Reads<T, kReads, kMissing>& reads,
                                            const Writes<T, kWrites>& writes, const Step& step, const Then& then,
                                            Partials partials, std::integer_sequence<int, kIndex...> indices) {
    constexpr int kBlockSize = SweepTuning::kBlockSize;
    using Result = decltype(step(*scalars, reads.template at<kIndex>(0)...));
    constexpr int kSums = Result::kSums;
    static_assert(kSums <= kMaxSums);
    const S now = *scalars;
    if (now.stopped) return;  // the same in all threads of all blocks

    const std::int64_t first = std::int64_t(blockIdx.x) * kBlockSize + threadIdx.x;
    const std::int64_t stride = std::int64_t(gridDim.x) * kBlockSize;
    auto sums = sweep_elements<Result, SweepTuning::kInFlight>(n, last_element(n, first, stride), -stride, now, reads,
                                                               writes, step, indices);

    if constexpr (kSums > 0) {
        work_with_sums(scalars, now, sums, then, partials);
    } else if constexpr (!std::is_same_v<Then, NoWork>) {
        if (arrives_last(partials.arrivals)) work_on(scalars, now, then, sums);
    }
}

template <class S, class T, int kReads, unsigned kMissing, int kWrites, class Step, class Then>
__global__ void __launch_bounds__(SweepTuning::kBlockSize, SweepTuning::kBlocksPerProcessor)
    sweep_grid_stride(index_t n, S* scalars, Reads<T, kReads, kMissing> reads, Writes<T, kWrites> writes, Step step,
                      Then then, Partials partials) {
    sweep_block(n, scalars, reads, writes, step, then, partials, std::make_integer_sequence<int, kReads>{});
}

// The inner products of a product's x and y, and of y and W y: from the pairs of parts that it has left, and from the
// vectors in the rows that these lack. A null w is ones.
template <class S, class T, class Then>
__global__ void __launch_bounds__(SweepTuning::kBlockSize, SweepTuning::kBlocksPerProcessor)
    add_dots_grid_stride(S* scalars, DotsLeft left, const Wide<T>* parts, const T* x, const T* y, const T* w, Then then,
                         Partials partials) {
    const S now = *scalars;
    if (now.stopped) return;
    Sums<T, 2> sums;
    const std::int64_t first = std::int64_t(blockIdx.x) * SweepTuning::kBlockSize + threadIdx.x;
    const std::int64_t stride = std::int64_t(gridDim.x) * SweepTuning::kBlockSize;
    index_t items = left.pairs;
    for (const DotsLeft::Rows& rows : left.missing) items = max(items, rows.end - rows.begin);
    for (std::int64_t k = first; k < items; k += stride) {
        constexpr int kRanges = std::extent_v<decltype(left.missing)>;
        const bool has_pair = k < left.pairs;
        const Wide<T> pair[2] = {has_pair ? parts[2 * k] : Wide<T>{}, has_pair ? parts[2 * k + 1] : Wide<T>{}};
        T loaded[kRanges][3];  // before anything is added, because each load takes as long as all of them
#pragma unroll
        for (int i = 0; i < kRanges; ++i) {
            const std::int64_t row = left.missing[i].begin + k;
            const bool is_there = row < left.missing[i].end;
            loaded[i][0] = is_there ? x[row] : T(0);
            loaded[i][1] = is_there ? y[row] : T(0);
            loaded[i][2] = is_there && w != nullptr ? w[row] : T(1);
        }
        sums.value[0] += pair[0];
        sums.value[1] += pair[1];
#pragma unroll
        for (int i = 0; i < kRanges; ++i) {
            sums += DotsOfProduct<T>{}(now, loaded[i][0], loaded[i][1], loaded[i][2]).summands;
        }
    }
    work_with_sums(scalars, now, sums, then, partials);
}

// A sweep without scalars or sums.
template <class T, int kReads, unsigned kMissing, int kWrites, class Step, int... kIndex>
__device__ __forceinline__ void each_block(index_t n, const Reads<T, kReads, kMissing>& reads,
                                           const Writes<T, kWrites>& writes, const Step& step,
                                           std::integer_sequence<int, kIndex...>) {
    const std::int64_t stride = std::int64_t(gridDim.x) * SweepTuning::kBlockSize;
    for (std::int64_t k = std::int64_t(blockIdx.x) * SweepTuning::kBlockSize + threadIdx.x; k < n; k += stride) {
        const auto i = static_cast<index_t>(k);
        const auto result = step(reads.template at<kIndex>(i)...);
#pragma unroll
        for (int w = 0; w < kWrites; ++w) writes.to[w][i] = result.written[w];
    }
}

template <class T, int kReads, unsigned kMissing, int kWrites, class Step>
__global__ void __launch_bounds__(SweepTuning::kBlockSize, SweepTuning::kBlocksPerProcessor)
    each_grid_stride(index_t n, Reads<T, kReads, kMissing> reads, Writes<T, kWrites> writes, Step step) {
    each_block(n, reads, writes, step, std::make_integer_sequence<int, kReads>{});
}

// The products of w with `count` vectors of a basis: every block leaves the sums over its elements, the k-th product's
// at of_blocks[k * gridDim.x + block]. It does kVectors at a time, and reads w again for the next ones.
template <int kBlockSize, int kVectors, class T>
__device__ __forceinline__ void leave_dots(index_t n, const Basis<T>& basis, int count, const T* w,
                                           Wide<T>* of_blocks) {
    const std::int64_t stride = std::int64_t(gridDim.x) * kBlockSize;
    for (int first = 0; first < count; first += kVectors) {
        Wide<T> sums[kVectors] = {};
        for (std::int64_t i = std::int64_t(blockIdx.x) * kBlockSize + threadIdx.x; i < n; i += stride) {
            const T own = w[i];
            T loaded[kVectors];
#pragma unroll
            for (int k = 0; k < kVectors; ++k) loaded[k] = first + k < count ? basis[first + k][i] : T(0);
#pragma unroll
            for (int k = 0; k < kVectors; ++k) sums[k] += dot(loaded[k], own);
        }
        const Wide<T> sum = sum_block_each<kBlockSize>(sums);
        const int k = first + static_cast<int>(threadIdx.x);
        if (threadIdx.x < kVectors && k < count) of_blocks[k * gridDim.x + blockIdx.x] = sum;
    }
}

// target = target + sign * sum of factors[k] * basis[k], and this thread's part of the sum of squares of the result.
template <int kBlockSize, int kVectors, class T>
__device__ __forceinline__ Wide<T> combine_elements(index_t n, const Basis<T>& basis, int count, const Wide<T>* factors,
                                                    double sign, T* target) {
    Wide<T> sum{};
    const std::int64_t stride = std::int64_t(gridDim.x) * kBlockSize;
    for (std::int64_t i = std::int64_t(blockIdx.x) * kBlockSize + threadIdx.x; i < n; i += stride) {
        T value = target[i];
        for (int first = 0; first < count; first += kVectors) {
            T loaded[kVectors];
#pragma unroll
            for (int k = 0; k < kVectors; ++k) loaded[k] = first + k < count ? basis[first + k][i] : T(0);
#pragma unroll
            for (int k = 0; k < kVectors; ++k) {
                if (first + k < count) value += T(sign * factors[first + k]) * loaded[k];
            }
        }
        target[i] = value;
        sum += square(value);
    }
    return sum;
}

template <class S, class T, class Then>
__device__ __forceinline__ void dots_block(index_t n, S* scalars, const Basis<T>& basis, int count, const T* w,
                                           Wide<T>* results, const Then& then, Partials partials) {
    constexpr int kBlockSize = SweepTuning::kBlockSize;
    const S now = *scalars;
    if (now.stopped) return;
    auto* const of_blocks = reinterpret_cast<Wide<T>*>(partials.sums);
    leave_dots<kBlockSize, SweepTuning::kBasisInFlight>(n, basis, count, w, of_blocks);
    if (!arrives_last(partials.arrivals)) return;
    sums_of_blocks<kBlockSize>(of_blocks, count, results);
    work_on(scalars, now, then);
}

template <class S, class T, class Then>
__global__ void __launch_bounds__(SweepTuning::kBlockSize, SweepTuning::kBlocksPerProcessor)
    dots_grid_stride(index_t n, S* scalars, Basis<T> basis, int count, const T* w, Wide<T>* results, Then then,
                     Partials partials) {
    dots_block(n, scalars, basis, count, w, results, then, partials);
}

template <class S, class T, class Count, class Then>
__device__ __forceinline__ void combine_block(index_t n, S* scalars, const Basis<T>& basis, const Count& count,
                                              const Wide<T>* factors, double sign, T* target, const Then& then,
                                              Partials partials) {
    const S now = *scalars;
    if (now.stopped) return;
    const Wide<T> sum = combine_elements<SweepTuning::kBlockSize, SweepTuning::kBasisInFlight>(n, basis, count(now),
                                                                                               factors, sign, target);
    work_with_sums(scalars, now, Sums<T, 1>{{sum}}, then, partials);
}

template <class S, class T, class Count, class Then>
__global__ void __launch_bounds__(SweepTuning::kBlockSize, SweepTuning::kBlocksPerProcessor)
    combine_grid_stride(index_t n, S* scalars, Basis<T> basis, Count count, const Wide<T>* factors, double sign,
                        T* target, Then then, Partials partials) {
    combine_block(n, scalars, basis, count, factors, sign, target, then, partials);
}

template <class S, class Work>
__global__ void compute_one_thread(S* scalars, Work work) {
    work_on(scalars, *scalars, work);
}

template <class T, class Then>
struct UseSums {
    KeptSums<T> kept;
    Then then;

    template <class S>
    __device__ void operator()(S& scalars) const {
        then(scalars, kept);
    }
};

}  // namespace spmvgpu::gpu
