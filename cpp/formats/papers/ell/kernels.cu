#include "core/dispatch.hpp"
#include "formats/papers/ellpack/layout.hpp"
#include "formats/papers/ellpack_r/layout.hpp"
#include "formats/papers/ellr_t/layout.hpp"
#include "gpu/cuda/check.hpp"
#include "gpu/cuda/residency.cuh"
#include "gpu/cuda/warp.cuh"
#include "gpu/residency.hpp"

namespace spmvgpu {

namespace gpu {

namespace {

// kThreads neighbouring threads take a row, one slot of every column each; each column is read by all threads in order.
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
        sum = sum_strided<kInFlight, std::int64_t>(col_indices, values, product, thread, columns * shape.pitch,
                                                   shape.pitch);
    }
    sum = sum_lanes(sum, kThreads);
    wait_for_kernel_before();
    if (row < shape.rows && lane == 0) store_row(product, static_cast<index_t>(row), sum);
}

}  // namespace

template <class T>
Residency ell_residency(int ordinal) {
    return residency(ell_threads_per_row<T, 1>, PaddedTuning{}.block_size, ordinal);
}

}  // namespace gpu

template <class T, class Kind>
void Ell<T, Kind>::spmv_cuda(const Product<T>& product, Stream stream) const {
    const EllShape& shape = slots.shape;
    if (shape.rows == 0) return;
    dispatch<1, 2, 4, 8, 16, 32>("threads_per_row", shape.threads_per_row, [&]<int kThreads>() {
        const unsigned blocks = gpu::blocks_for(std::int64_t(shape.rows) * kThreads, tuning.block_size);
        gpu::launch_early(gpu::ell_threads_per_row<T, kThreads>, {blocks, static_cast<unsigned>(tuning.block_size)},
                          stream, shape, lengths(), slots.col_indices.data(), slots.values.data(), product);
    });
}

#define INSTANTIATE(T)                                                     \
    template gpu::Residency gpu::ell_residency<T>(int);                    \
    template void Ellpack<T>::spmv_cuda(const Product<T>&, Stream) const;  \
    template void EllpackR<T>::spmv_cuda(const Product<T>&, Stream) const; \
    template void EllrT<T>::spmv_cuda(const Product<T>&, Stream) const;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
