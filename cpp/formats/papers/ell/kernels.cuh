// The kernel of ELLPACK, ELLPACK-R and ELLR-T.
#pragma once

#include "formats/papers/ell/slots.hpp"
#include "gpu/cuda/check.hpp"
#include "gpu/cuda/warp.cuh"

namespace spmvgpu::gpu {

// kThreads neighbouring threads per row, one slot of every column each; each column is read by all threads in order.
// With row_lengths a thread stops after the last entry of its own, without (nullptr) it reads the padding too.
template <class T, int kThreads>
__global__ void ell_threads_per_row(EllShape shape, const index_t* __restrict__ row_lengths,
                                    const index_t* __restrict__ col_indices, const T* __restrict__ values,
                                    Product<T> product) {
    let_next_kernel_start();
    constexpr int kInFlight = 4;  // columns in flight per thread
    // 64-bit: a step of kInFlight columns may leave the 2^31 slots, and rows without entries may take more threads.
    const std::int64_t thread = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    const std::int64_t row = thread / kThreads;
    const int lane = threadIdx.x % kThreads;
    T sum = 0;
    if (row < shape.rows) {
        index_t columns = shape.width;
        if (row_lengths != nullptr) columns = row_lengths[row] / kThreads + (lane < row_lengths[row] % kThreads);
        sum = sum_strided<kInFlight, std::int64_t>(col_indices, values, product.x, thread, columns * shape.pitch,
                                                   shape.pitch);
    }
    sum = sum_lanes(sum, kThreads);
    wait_for_kernel_before();
    if (row < shape.rows && lane == 0) store_row(product, static_cast<index_t>(row), sum);
}

template <int kThreads, class T>
void launch_ell(const EllSlots<T>& slots, const index_t* row_lengths, const Product<T>& product, int block_size,
                Stream stream) {
    const EllShape& shape = slots.shape;
    if (shape.rows == 0) return;
    const unsigned blocks = blocks_for(std::int64_t(shape.rows) * kThreads, block_size);
    launch_early(ell_threads_per_row<T, kThreads>, {blocks, static_cast<unsigned>(block_size)}, stream, shape,
                 row_lengths, slots.col_indices.data(), slots.values.data(), product);
}

}  // namespace spmvgpu::gpu
