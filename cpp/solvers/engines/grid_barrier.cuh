// A barrier of all blocks of a cooperative grid.
#pragma once

#include <cuda/atomic>

namespace spmvgpu::gpu {

// The barrier of cooperative_groups, reduced to this kind of grid: a counter whose top bit flips once all blocks have
// arrived, which leaves it ready for the next time, in this kernel or in the next one. It begins at 0.
class GridBarrier {
public:
    __device__ explicit GridBarrier(unsigned* counter)
        : counter_(*counter), phase_(counter_.load(::cuda::memory_order_relaxed) & kPhase) {}

    // For thread 0 of every block. Writes of threads in step with it (__syncthreads) become visible to the threads that
    // are in step with any block's thread 0 afterwards: its acquire empties the L1 of its multiprocessor, so that their
    // plain loads find the writes of other blocks.
    __device__ __forceinline__ void arrive_and_wait() {
        if (gridDim.x == 1) return;
        // Together the blocks add 2^31.
        counter_.fetch_add(blockIdx.x == 0 ? kPhase - (gridDim.x - 1) : 1u, ::cuda::memory_order_release);
        phase_ ^= kPhase;
        while ((counter_.load(::cuda::memory_order_acquire) & kPhase) != phase_) {
        }
    }

    // For all threads of all blocks.
    __device__ __forceinline__ void wait_for_all() {
        __syncthreads();
        if (threadIdx.x == 0) arrive_and_wait();
        __syncthreads();
    }

private:
    static constexpr unsigned kPhase = 1u << 31;

    ::cuda::atomic_ref<unsigned, ::cuda::thread_scope_device> counter_;
    unsigned phase_;
};

}  // namespace spmvgpu::gpu
