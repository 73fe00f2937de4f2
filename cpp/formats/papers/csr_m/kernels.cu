#include "core/dispatch.hpp"
#include "formats/papers/csr_m/layout.hpp"
#include "gpu/cuda/check.hpp"
#include "gpu/cuda/warp.cuh"

namespace spmvgpu {

namespace {

using namespace gpu;

constexpr int kGathersInFlight = 4;  // per thread

template <class T>
__global__ void __launch_bounds__(kBlockSize)
    csr_m_gather(index_t nnz, const index_t* __restrict__ col_indices, const T* __restrict__ x, T* __restrict__ col_x) {
    const std::int64_t first = std::int64_t(blockIdx.x) * kBlockSize * kGathersInFlight + threadIdx.x;
    index_t cols[kGathersInFlight];
#pragma unroll
    for (int i = 0; i < kGathersInFlight; ++i) {
        const std::int64_t k = first + i * kBlockSize;
        cols[i] = k < nnz ? load_once(col_indices + k) : -1;
    }
    T gathered[kGathersInFlight];
#pragma unroll
    for (int i = 0; i < kGathersInFlight; ++i) gathered[i] = cols[i] >= 0 ? load(x + cols[i]) : T(0);
#pragma unroll
    for (int i = 0; i < kGathersInFlight; ++i) {
        if (cols[i] >= 0) store(col_x + first + i * kBlockSize, gathered[i]);
    }
}

// kLanes lanes per row, sums in shared memory: table III with 32 lanes, section 5.1 with 16.
template <class T, int kLanes>
__global__ void __launch_bounds__(kBlockSize)
    csr_m_shared(index_t rows, const index_t* __restrict__ row_offsets, const T* __restrict__ values,
                 const T* __restrict__ col_x, Product<T> product) {
    __shared__ T sums[kBlockSize];
    const auto row = static_cast<index_t>((std::int64_t(blockIdx.x) * kBlockSize + threadIdx.x) / kLanes);
    const int lane = threadIdx.x % kLanes;
    T sum = 0;
    if (row < rows) {
        const unsigned end = row_offsets[row + 1];
        // Unsigned, so that stepping past the end of 2^31 - 1 non-zeros does not overflow.
#pragma unroll kGathersInFlight
        for (unsigned k = unsigned(row_offsets[row]) + lane; k < end; k += kLanes)
            sum += load_once(values + k) * load_once(col_x + k);
    }
    sum = sum_lanes_shared(sums, sum, kLanes);
    if (row < rows && lane == 0) store_row(product, row, sum);
}

template <class T, int kLanes>
void launch(const CsrM<T>& csr_m, const T* col_x, const Product<T>& product, Stream stream) {
    const unsigned blocks = blocks_for(std::int64_t(csr_m.rows) * kLanes, kBlockSize);
    csr_m_shared<T, kLanes><<<blocks, kBlockSize, 0, native(stream)>>>(csr_m.rows, csr_m.row_offsets.data(),
                                                                       csr_m.values.data(), col_x, product);
    check_launch("csr_m_shared");
}

}  // namespace

template <class T>
void CsrM<T>::gather_x_cuda(const Product<T>& product, Stream stream) const {
    if (gathers_on_host() || nnz == 0) return;
    csr_m_gather<<<blocks_for(nnz, kBlockSize * kGathersInFlight), kBlockSize, 0, native(stream)>>>(
        nnz, col_indices.data(), product.x, static_cast<T*>(product.scratch));
    check_launch("csr_m_gather");
}

template <class T>
void CsrM<T>::spmv_cuda(const Product<T>& product, Stream stream) const {
    if (rows == 0) return;
    const T* const col_x = gathers_on_host() ? product.x : static_cast<const T*>(product.scratch);
    dispatch<CsrMKernel::kWarp, CsrMKernel::kHalfWarp>("kernel", tuning.kernel, [&]<CsrMKernel kKernel>() {
        launch<T, kKernel == CsrMKernel::kWarp ? 32 : 16>(*this, col_x, product, stream);
    });
}

#define INSTANTIATE(T)                                                     \
    template void CsrM<T>::gather_x_cuda(const Product<T>&, Stream) const; \
    template void CsrM<T>::spmv_cuda(const Product<T>&, Stream) const;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
