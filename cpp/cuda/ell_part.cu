#include "formats/ell_part.hpp"

#include "cuda/check.hpp"
#include "cuda/warp.cuh"

namespace spmvgpu {

namespace {

using namespace cuda;

constexpr int kInFlight = 4;  // columns in flight per thread
constexpr int kBlockSize = 256;

template <class T>
__global__ void __launch_bounds__(kBlockSize)
    ell_part_thread_per_row(index_t rows, index_t pitch, index_t slots, const index_t* __restrict__ col_indices,
                            const T* __restrict__ values, Product<T> product) {
    const auto row = static_cast<index_t>(blockIdx.x * kBlockSize + threadIdx.x);
    if (row >= rows) return;
    store_row(product, row, sum_strided<kInFlight>(col_indices, values, product.x, row, slots, pitch));
}

}  // namespace

template <class T>
void EllPart<T>::spmv_cuda(const Product<T>& product, Stream stream) const {
    if (rows == 0) return;
    ell_part_thread_per_row<<<blocks_for(rows, kBlockSize), kBlockSize, 0, native(stream)>>>(
        rows, pitch, width * pitch, col_indices.data(), values.data(), product);
    check_launch("ell_part_thread_per_row");
}

template void EllPart<float>::spmv_cuda(const Product<float>&, Stream) const;
template void EllPart<double>::spmv_cuda(const Product<double>&, Stream) const;

}  // namespace spmvgpu
