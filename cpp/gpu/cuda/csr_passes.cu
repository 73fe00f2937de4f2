#include "core/passes/clusters.hpp"
#include "core/passes/csr_passes.hpp"
#include "gpu/csr_passes.hpp"
#include "gpu/cuda/passes.cuh"

namespace spmvgpu::cuda {

index_t longest_row(index_t rows, const index_t* row_offsets, int ordinal) {
    CudaPasses passes(ordinal);
    return spmvgpu::longest_row(passes, rows, row_offsets);
}

template <class Number>
Array<Number> take_every(const Number* from, std::int64_t n, std::int64_t step, int ordinal) {
    CudaPasses passes(ordinal);
    Array<Number> taken = spmvgpu::take_every(passes, from, n, step);
    passes.finish();
    return taken;
}

bool is_canonical(index_t rows, index_t cols, index_t nnz, const index_t* row_offsets, const index_t* col_indices,
                  int ordinal) {
    CudaPasses passes(ordinal);
    return spmvgpu::is_canonical(passes, rows, cols, nnz, row_offsets, col_indices);
}

template <class T>
CsrMatrix<T> transpose(const CsrMatrix<T>& csr) {
    CudaPasses passes(csr.row_offsets.device().ordinal);
    CsrMatrix<T> result = transpose_by_order(passes, csr);
    passes.finish();
    return result;
}

double clustering(index_t rows, const index_t* row_offsets, const index_t* col_indices, int ordinal) {
    CudaPasses passes(ordinal);
    return spmvgpu::clustering(passes, rows, row_offsets, col_indices);
}

template <class T>
Array<index_t> order_by_clusters(const CsrMatrix<T>& csr) {
    CudaPasses passes(csr.row_offsets.device().ordinal);
    Array<index_t> order = passes.keep(spmvgpu::order_by_clusters(passes, csr));
    passes.finish();
    return order;
}

template <class T>
CsrMatrix<T> reordered(const CsrMatrix<T>& csr, const Array<index_t>& order) {
    CudaPasses passes(csr.row_offsets.device().ordinal);
    CsrMatrix<T> result = spmvgpu::reordered(passes, csr, order.data());
    passes.finish();
    return result;
}

template <class T>
Array<index_t> entries_before(const CsrMatrix<T>& csr, const Array<index_t>& order) {
    CudaPasses passes(csr.row_offsets.device().ordinal);
    Array<index_t> map = spmvgpu::entries_before(passes, csr, order.data());
    passes.finish();
    return map;
}

template Array<index_t> take_every(const index_t*, std::int64_t, std::int64_t, int);
#define INSTANTIATE(T)                                                           \
    template Array<T> take_every(const T*, std::int64_t, std::int64_t, int);     \
    template CsrMatrix<T> transpose(const CsrMatrix<T>&);                        \
    template Array<index_t> order_by_clusters(const CsrMatrix<T>&);              \
    template CsrMatrix<T> reordered(const CsrMatrix<T>&, const Array<index_t>&); \
    template Array<index_t> entries_before(const CsrMatrix<T>&, const Array<index_t>&);
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu::cuda
