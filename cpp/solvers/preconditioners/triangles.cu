// Triangular solves on a GPU, in one kernel each (Liu et al., A Synchronization-Free Algorithm for Parallel Sparse
// Triangular Solves, 2016): a row waits for the unknowns that it refers to, and announces its own. The order of every
// sum is fixed, and so are the bits.
#include <cuda/atomic>

#include "core/dispatch.hpp"
#include "solvers/engines/cuda_queue.cuh"
#include "solvers/preconditioners/incomplete.hpp"

namespace spmvgpu::gpu {

namespace {

using Flag = ::cuda::atomic_ref<unsigned, ::cuda::thread_scope_device>;

// kLanes lanes take a row, and every column of b and x has a row of blocks. Blocks are numbered in the order in which
// they begin, and rows wait only for rows of blocks with smaller numbers or of other warps of their block, never for
// one of their warp: some warp can always proceed.
template <class T, int kLanes>
__global__ void __launch_bounds__(kBlockSize)
    solve_lanes_per_row(index_t places, const index_t* __restrict__ rows, const index_t* __restrict__ row_offsets,
                        const index_t* __restrict__ col_indices, const T* __restrict__ values,
                        const T* __restrict__ inverse_diagonal, const T* __restrict__ b, T* x, index_t n,
                        unsigned* states) {
    __shared__ unsigned block;
    b += std::int64_t(blockIdx.y) * n;
    x += std::int64_t(blockIdx.y) * n;
    unsigned *const ticket = states + blockIdx.y * solve_state_size(n), *const done = ticket + 1;
    if (threadIdx.x == 0) block = atomicAdd(ticket, 1u);
    __syncthreads();
    const std::int64_t place = (std::int64_t(block) * kBlockSize + threadIdx.x) / kLanes;
    const int lane = threadIdx.x % kLanes;
    const index_t row = place < places ? rows[place] : Triangle<T>::kNoRow;
    T sum = 0;
    if (row >= 0) {
        const index_t end = row_offsets[place + 1];
        for (index_t k = row_offsets[place] + lane; k < end; k += kLanes) {
            const index_t col = load_once(col_indices + k);
            const T value = load_once(values + k);
            while (Flag(done[col]).load(::cuda::memory_order_acquire) == 0) {
            }
            sum += value * load_shared_result(x + col);
        }
    }
    sum = sum_lanes(sum, kLanes);
    if (row < 0 || lane != 0) return;
    const T left = b[row] - sum;
    x[row] = inverse_diagonal != nullptr ? left * inverse_diagonal[place] : left;
    Flag(done[row]).store(1, ::cuda::memory_order_release);
}

template <class T>
void solve_triangle(const Triangle<T>& triangle, const T* b, T* x, index_t n, index_t columns, unsigned* states,
                    Stream stream) {
    if (triangle.places() == 0) return;
    dispatch<1, 2, 4, 8, 16, 32>("lanes", triangle.lanes, [&]<int kLanes>() {
        const unsigned blocks = blocks_for(std::int64_t(triangle.places()) * kLanes, kBlockSize);
        solve_lanes_per_row<T, kLanes><<<dim3(blocks, columns), kBlockSize, 0, native(stream)>>>(
            triangle.places(), triangle.rows.data(), triangle.row_offsets.data(), triangle.col_indices.data(),
            triangle.values.data(), triangle.inverse_diagonal.data(), b, x, n, states);
        check_launch("solve_lanes_per_row");
    });
}

}  // namespace

template <class T>
void solve_triangles(const IncompleteFactors<T>& factors, const T* b, T* between, T* x, index_t columns,
                     unsigned* state, Stream stream) {
    const index_t n = factors.rows();
    const std::size_t size = solve_state_size(n);
    check(cudaMemsetAsync(state, 0, columns * size * sizeof(unsigned), native(stream)), "cudaMemsetAsync");
    solve_triangle(factors.lower(), b, between, n, columns, state, stream);
    solve_triangle(factors.upper(), static_cast<const T*>(between), x, n, columns, state + size / 2, stream);
}

#define INSTANTIATE(T) \
    template void solve_triangles(const IncompleteFactors<T>&, const T*, T*, T*, index_t, unsigned*, Stream);
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu::gpu
