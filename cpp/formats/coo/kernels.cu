#include "formats/coo/layout.hpp"
#include "formats/shared/spans.cuh"
#include "gpu/cuda/check.hpp"
#include "gpu/cuda/warp.cuh"

namespace spmvgpu {

namespace {

using namespace gpu;

template <class T>
__global__ void scale_thread_per_row(index_t rows, Product<T> product) {
    const index_t row = blockIdx.x * kBlockSize + threadIdx.x;
    if (row >= rows) return;
    T* const y = product.y + product.row_of_y(row);
    store(y, product.beta == T(0) ? T(0) : scaled(product.beta, load(y)));
}

// A warp takes a strip of non-zeros, 32 at a time: a segmented scan over equal rows, whose last lane in each row holds
// the row's sum. The row in the last lane is carried into the next 32. A row that began in an earlier strip leaves its
// sum in entering[strip], one that goes on in the next strip in leaving[strip]; all others are stored.
template <class T>
__global__ void __launch_bounds__(kBlockSize)
    coo_warp_per_strip(index_t nnz, index_t strip_length, const index_t* __restrict__ row_indices,
                       const index_t* __restrict__ col_indices, const T* __restrict__ values, Product<T> product,
                       T* entering, T* leaving) {
    const int lane = threadIdx.x % kWarp;
    const index_t strip = blockIdx.x * (kBlockSize / kWarp) + threadIdx.x / kWarp;
    const std::int64_t strip_begin = std::int64_t(strip) * strip_length;
    if (strip_begin >= nnz) return;
    const auto begin = static_cast<index_t>(strip_begin);
    const index_t end = nnz - begin > strip_length ? begin + strip_length : nnz;
    const index_t row_before = begin > 0 ? row_indices[begin - 1] : -1;
    const index_t row_after = end < nnz ? row_indices[end] : -1;

    const Keeping keeping(product.policy);
    index_t carried_row = row_indices[begin];
    T carried_sum = 0;
#pragma unroll 2
    for (unsigned base = begin; base < static_cast<unsigned>(end); base += kWarp) {  // unsigned: may step past 2^31
        const unsigned k = base + lane;
        const bool valid = k < static_cast<unsigned>(end);
        // Past the end lanes repeat the last row with nothing to add, so that its sum ends up in lane 31 as ever.
        const index_t row = keeping.load_once(row_indices + (valid ? k : end - 1));
        const index_t col = valid ? keeping.load_once(col_indices + k) : 0;
        T sum = valid ? keeping.load_once(values + k) : T(0);
        if (base == static_cast<unsigned>(begin)) wait_for_kernel_before();
        if (valid) sum = sum * load(product.x + col);
        if (lane == 0) {
            if (row == carried_row) {
                sum += carried_sum;
            } else if (carried_row == row_before) {
                entering[strip] = carried_sum;
            } else {
                store_row(product, carried_row, carried_sum);
            }
        }
        for (int offset = 1; offset < kWarp; offset *= 2) {
            const index_t other_row = __shfl_up_sync(kAllLanes, row, offset);
            const T other_sum = shuffle_up(sum, offset);
            if (lane >= offset && other_row == row) sum += other_sum;
        }
        const index_t next_row = __shfl_down_sync(kAllLanes, row, 1);
        if (lane < kWarp - 1 && next_row != row) {
            if (row == row_before) {
                entering[strip] = sum;
            } else {
                store_row(product, row, sum);
            }
        }
        carried_row = __shfl_sync(kAllLanes, row, kWarp - 1);
        carried_sum = shuffle_from(sum, kWarp - 1);
    }
    if (lane != 0) return;
    if (carried_row == row_before) {
        entering[strip] = carried_sum;
    } else if (carried_row == row_after) {
        leaving[strip] = carried_sum;
    } else {
        store_row(product, carried_row, carried_sum);
    }
}

}  // namespace

template <class T>
void Coo<T>::spmv_cuda(const Product<T>& given, Stream stream) const {
    Product<T> product = given;
    if (has_empty_rows) {
        // No non-zero stands for an empty row, so y is scaled first and the products are added to it.
        scale_thread_per_row<<<blocks_for(rows, kBlockSize), kBlockSize, 0, native(stream)>>>(rows, product);
        check_launch("scale_thread_per_row");
        product.beta = T(1);
    }
    if (nnz == 0) return;
    auto* const entering = static_cast<T*>(product.scratch);
    auto* const leaving = entering + strips();
    launch_early(coo_warp_per_strip<T>, {blocks_for(strips(), kBlockSize / kWarp), kBlockSize}, stream, nnz,
                 tuning.strip, row_indices.data(), col_indices.data(), values.data(), product, entering, leaving);
    merge_spans(spans, product, stream, CutRowSums<T>{entering, leaving});
}

#define INSTANTIATE(T) template void Coo<T>::spmv_cuda(const Product<T>&, Stream) const;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
