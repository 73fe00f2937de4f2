// A step of Arnoldi's method as one cooperative kernel, with a barrier in place of the end of a kernel at each sum.
// With a basis that stays in the L2, latencies are most of its time:
//
//     five kernels        3 us each, 1.5 us for a pass over the basis, 1 to 3 us for sums and rotations
//     one kernel          a launch at 3 us, 3 barriers at 1.2 us, the same passes over the basis, and the rotations
//
// With the product this takes 25 us an iteration in place of 34 at 10 k unknowns.
#pragma once

#include <algorithm>

#include "solvers/engines/context.hpp"
#include "solvers/engines/cooperative.cuh"
#include "solvers/engines/cuda_queue.cuh"
#include "solvers/engines/grid_barrier.cuh"

namespace spmvgpu::gpu {

struct OrthogonaliseTuning {
    static constexpr int kBlockSize = 512;  // one block on each multiprocessor, because few blocks make a barrier short
    static constexpr int kInFlightBytes = 128;  // for sums, per thread: 16 vectors of a basis are read together
    static constexpr int kMaxVectors = 512;     // each block keeps their factors in shared memory
};

// See Context::orthogonalise. All blocks compute the same from the same partial sums; block 0 writes h, `again` and the
// scalars.
template <class T, class S>
__global__ void __launch_bounds__(OrthogonaliseTuning::kBlockSize)
    orthogonalise_grid(index_t n, S* scalars, Basis<T> basis, int count, Wide<T>* h, Wide<T>* again, unsigned* arrivals,
                       Wide<T>* partials) {
    using W = Wide<T>;
    constexpr int kBlockSize = OrthogonaliseTuning::kBlockSize;
    constexpr int kVectors = OrthogonaliseTuning::kInFlightBytes / sizeof(W);
    __shared__ alignas(W) unsigned char memory[OrthogonaliseTuning::kMaxVectors * sizeof(W)];
    __shared__ double scale;
    wait_for_kernel_before();
    // Equal in all threads of all blocks, because block 0 changes it behind the last barrier.
    if (scalars->stopped) return;
    W* const factors = reinterpret_cast<W*>(memory);
    T* const w = basis[count];
    GridBarrier barrier(arrivals);
    const auto factors_of = [&](const W* of_blocks, int sums, W* results) {
        barrier.wait_for_all();
        sums_of_blocks<kBlockSize>(of_blocks, sums, factors);
        if (blockIdx.x != 0) return;
        for (int k = threadIdx.x; k < sums; k += kBlockSize) results[k] = factors[k];
    };

    leave_dots<kBlockSize, kVectors>(n, basis, count + 1, w, partials);
    factors_of(partials, count + 1, h);
    combine_elements<kBlockSize, kVectors>(n, basis, count, factors, -1, w);

    // Other blocks may still read the previous sums.
    W* const next_partials = partials + (count + 1) * gridDim.x;
    leave_dots<kBlockSize, kVectors>(n, basis, count, w, next_partials);
    factors_of(next_partials, count, again);
    const W left = sum_block<W, kBlockSize>(combine_elements<kBlockSize, kVectors>(n, basis, count, factors, -1, w));

    if (threadIdx.x == 0) partials[blockIdx.x] = left;
    barrier.wait_for_all();
    sums_of_blocks<kBlockSize>(partials, 1, factors);
    S changed;
    if (threadIdx.x == 0) {
        changed = *scalars;
        changed.measure(real_of(factors[0]));
        scale = changed.scale;
    }
    __syncthreads();
    const Real<T> factor = scale;
    for (std::int64_t i = std::int64_t(blockIdx.x) * kBlockSize + threadIdx.x; i < n;
         i += std::int64_t(gridDim.x) * kBlockSize) {
        w[i] = factor * w[i];
    }
    if (blockIdx.x != 0 || threadIdx.x != 0) return;
    changed.rotate();
    *scalars = changed;
}

// Returns false if it was not done so, which depends on the system and the device alone.
template <class T, class S>
bool orthogonalise_together(Context<T, CudaQueue>& solve, S* s, const Basis<T>& basis, int count, Wide<T>* h,
                            Wide<T>* again) {
    using Tuning = OrthogonaliseTuning;
    if (solve.limits.scaled || solve.limits.restart >= Tuning::kMaxVectors) return false;
    constexpr auto kKernel = orthogonalise_grid<T, S>;
    const int ordinal = solve.work.system.device.ordinal;
    const auto blocks = std::clamp<unsigned>(blocks_for(solve.n, Tuning::kBlockSize), 1u,
                                             static_cast<unsigned>(properties(ordinal).multiprocessors));
    if (!solve.report.chained && !can_cooperate(kKernel, blocks, Tuning::kBlockSize, ordinal)) return false;
    launch_cooperative(kKernel, blocks, Tuning::kBlockSize, solve.queue.stream(), solve.n, s, basis, count, h, again,
                       solve.queue.partials().arrivals + 1, reinterpret_cast<Wide<T>*>(solve.queue.partials().sums));
    return solve.report.chained = true;
}

}  // namespace spmvgpu::gpu
