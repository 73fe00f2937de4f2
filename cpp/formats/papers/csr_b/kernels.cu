#include "core/dispatch.hpp"
#include "formats/papers/csr_b/layout.hpp"
#include "formats/shared/spans.cuh"
#include "gpu/cuda/check.hpp"
#include "gpu/cuda/warp.cuh"

namespace spmvgpu {

namespace {

using namespace gpu;

static_assert(kBlockSize == CsrBTuning::kBlockSize);

// Blocks to keep on a multiprocessor, as in the balanced kernel of csr: more of them if a thread has fewer loads in
// flight, or values are narrower.
template <class T>
constexpr int blocks_per_processor(int items) {
    return (items <= 4 ? 8 : items <= 8 ? 6 : 4) / (sizeof(T) > 8 ? 2 : 1);
}

// A block takes a fragment: the products of its kBlockSize * kItems non-zeros go to shared memory, where `lanes` lanes
// at a time add up a row. A row that began in an earlier fragment leaves its sum in entering[fragment], one that goes
// on in the next in leaving[fragment]; all others are stored.
template <class T, int kItems>
__global__ void __launch_bounds__(kBlockSize, blocks_per_processor<T>(kItems))
    csr_b_block_per_fragment(index_t rows, index_t nnz, const RowBound* __restrict__ bounds,
                             const index_t* __restrict__ row_offsets, const index_t* __restrict__ col_indices,
                             const T* __restrict__ values, int lanes, Product<T> product, T* entering, T* leaving) {
    let_next_kernel_start();
    constexpr int kFragment = kBlockSize * kItems;
    T* const products = shared_array<T, kFragment>();
    __shared__ T sums[kBlockSize];
    const auto begin = static_cast<index_t>(blockIdx.x * kFragment);
    const int count = nnz - begin < kFragment ? nnz - begin : kFragment;

    // All loads of the matrix are issued before the first gather waits for one.
    index_t cols[kItems];
    T factors[kItems];
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
        const int k = i * kBlockSize + threadIdx.x;
        cols[i] = k < count ? load_once(col_indices + begin + k) : -1;
        factors[i] = k < count ? load_once(values + begin + k) : T(0);
    }
    const RowBound bound = bounds[blockIdx.x];
    const index_t row_before = blockIdx.x > 0 ? bounds[blockIdx.x - 1].last : -1;
    const index_t row_after = blockIdx.x + 1 < gridDim.x ? bounds[blockIdx.x + 1].first : rows;
    wait_for_kernel_before();
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
        if (cols[i] >= 0) store(products + i * kBlockSize + threadIdx.x, factors[i] * load(product.x + cols[i]));
    }
    __syncthreads();

    // The rows of the fragment, with the empty ones between it and the fragment before it; the last fragment also has
    // the ones at the end.
    const index_t row_begin = row_before < bound.first ? row_before + 1 : bound.first;
    const index_t row_end = row_after == rows ? rows : bound.last + 1;
    // More rows than non-zeros: nearly all of them are empty, and a thread is enough for each.
    if (row_end - row_begin > kFragment) lanes = 1;
    const int lane = threadIdx.x % lanes;
    for (unsigned base = row_begin; base < static_cast<unsigned>(row_end); base += kBlockSize / lanes) {
        const unsigned position = base + threadIdx.x / lanes;  // unsigned: may lie past 2^31
        const bool valid = position < static_cast<unsigned>(row_end);
        const auto row = static_cast<index_t>(position);
        T sum = 0;
        if (valid) {
            // Only the part of the row within the fragment.
            const int first = row_offsets[row] > begin ? row_offsets[row] - begin : 0;
            const int last = row_offsets[row + 1] - begin < count ? row_offsets[row + 1] - begin : count;
            for (int k = first + lane; k < last; k += lanes) sum += load(products + k);
        }
        sum = sum_lanes_shared(sums, sum, lanes);
        if (!valid || lane != 0) continue;
        if (row == row_before) {
            entering[blockIdx.x] = sum;
        } else if (row == row_after) {
            leaving[blockIdx.x] = sum;
        } else {
            store_row(product, row, sum);
        }
    }
}

template <class T, int kItems>
void launch(const CsrB<T>& csr_b, const Product<T>& product, Stream stream) {
    auto* const entering = static_cast<T*>(product.scratch);
    auto* const leaving = entering + csr_b.bounds.size();
    const auto kernel = csr_b_block_per_fragment<T, kItems>;
    constexpr int kBytes = dynamic_bytes<T, kBlockSize * kItems>();
    if constexpr (kBytes > 0) allow_shared_bytes(kernel, kBytes);
    launch_early(kernel, {static_cast<unsigned>(csr_b.bounds.size()), kBlockSize, kBytes}, stream, csr_b.rows,
                 csr_b.nnz, csr_b.bounds.data(), csr_b.row_offsets.data(), csr_b.col_indices.data(),
                 csr_b.values.data(), csr_b.tuning.lanes_per_row, product, entering, leaving);
    merge_spans(csr_b.spans, product, stream, CutRowSums<T>{entering, leaving});
}

}  // namespace

template <class T>
void CsrB<T>::spmv_cuda(const Product<T>& product, Stream stream) const {
    if (rows == 0) return;
    dispatch<1, 2, 4, 8, 16>("fragment / block size", tuning.fragment / kBlockSize,
                             [&]<int kItems>() { launch<T, kItems>(*this, product, stream); });
}

#define INSTANTIATE(T) template void CsrB<T>::spmv_cuda(const Product<T>&, Stream) const;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
