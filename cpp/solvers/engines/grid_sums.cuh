// Sums over all threads of a cooperative grid, for kernels that continue with them.
#pragma once

#include "gpu/cuda/warp.cuh"
#include "solvers/engines/cuda_sweeps.cuh"
#include "solvers/engines/grid_barrier.cuh"

namespace spmvgpu::gpu {

// All blocks add up the same partial sums in the same order, so that their results are equal. All threads of all blocks
// call the same functions.
template <class T, int kBlockSize, int kMaxBlocks>
class GridSums {
    using W = Wide<T>;
    static constexpr int kSumsOfBlocks = kMaxBlocks * kMaxSums;

public:
    // Two copies of the sums of blocks, because one call writes its own while the sums of the last one are still read.
    static constexpr std::size_t kBytes = 2 * kSumsOfBlocks * sizeof(W);

    // `arrivals` is a GridBarrier's counter, `partials` memory of kBytes.
    __device__ GridSums(unsigned* arrivals, W* partials) : barrier_(arrivals), partials_(partials) {}

    // Calls use(sums over all threads) in one thread of every block, and is a barrier.
    template <int kSums, class Use>
    __device__ __forceinline__ void add_up(Sums<T, kSums> sums, const Use& use) {
        static_assert(kSums <= kMaxSums);
        constexpr int kWarps = kBlockSize / kWarp;
        __shared__ W of_warps[kSums][kWarps];
        const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
#pragma unroll
        for (int k = 0; k < kSums; ++k) {
            const W sum = sum_lanes(sums.value[k], kWarp);
            if (lane == 0) of_warps[k][warp] = sum;
        }
        __syncthreads();
        if (warp == 0) {
            W* const of_blocks = partials_ + (second_half_ ? kSumsOfBlocks : 0);
#pragma unroll
            for (int k = 0; k < kSums; ++k) {
                const W sum = sum_lanes(lane < kWarps ? of_warps[k][lane] : W{}, kWarp);
                if (lane == 0) of_blocks[k * kMaxBlocks + blockIdx.x] = sum;
            }
            if (lane == 0) barrier_.arrive_and_wait();
            __syncwarp();
            W parts[kSums][kMaxBlocks / kWarp];
#pragma unroll
            for (int k = 0; k < kSums; ++k) {
#pragma unroll
                for (int i = 0; i < kMaxBlocks / kWarp; ++i) {
                    const unsigned block = i * kWarp + lane;
                    const W* const part = of_blocks + k * kMaxBlocks + block;
                    parts[k][i] = block < gridDim.x ? load_partial(part) : W{};
                }
            }
#pragma unroll
            for (int k = 0; k < kSums; ++k) {
                W sum{};
#pragma unroll
                for (int i = 0; i < kMaxBlocks / kWarp; ++i) sum += parts[k][i];
                sums.value[k] = sum_lanes(sum, kWarp);
            }
            if (lane == 0) {
                // The barrier keeps the compiler from letting all lanes read ahead data in shared memory that `use`
                // reads and one lane changes, which is harmless, but a race.
                asm volatile("" ::: "memory");
                use(sums);
            }
        }
        second_half_ = !second_half_;
        __syncthreads();
    }

    __device__ __forceinline__ void wait_for_all() { barrier_.wait_for_all(); }

private:
    GridBarrier barrier_;
    W* partials_;
    bool second_half_ = false;  // of the partial sums, for the next call
};

// Copies the scalars of a solver to the shared memory of a block, for kernels in which all blocks do the same work on
// copies of them. All threads of all blocks must call.
template <class S>
__device__ __forceinline__ S* copy_scalars(const S& scalars) {
    static_assert(std::is_trivially_copyable_v<S>);
    __shared__ alignas(S) unsigned char memory[sizeof(S)];
    __shared__ double unread;
    S* const s = reinterpret_cast<S*>(memory);
    if (threadIdx.x == 0) {
        new (memory) S(scalars);
        if (blockIdx.x != 0) {  // block 0 records residuals for the host
            s->history = &unread;
            s->history_size = 1;
        }
    }
    __syncthreads();
    return s;
}

// Stores a changed copy. All blocks have read the scalars by then, because they change behind a barrier.
template <class S>
__device__ __forceinline__ void store_scalars(S* scalars, const S& changed) {
    if (blockIdx.x == 0 && threadIdx.x == 0) *scalars = changed;
}

}  // namespace spmvgpu::gpu
