// What is asked of a matrix in CSR on a GPU; see core/passes/csr_passes.hpp. Done when it returns.
#pragma once

#include "core/csr_matrix.hpp"

namespace spmvgpu::cuda {

index_t longest_row(index_t rows, const index_t* row_offsets, int ordinal);

template <class Number>
Array<Number> take_every(const Number* from, std::int64_t n, std::int64_t step, int ordinal);

bool is_canonical(index_t rows, index_t cols, index_t nnz, const index_t* row_offsets, const index_t* col_indices,
                  int ordinal);

template <class T>
CsrMatrix<T> transpose(const CsrMatrix<T>& csr);

double clustering(index_t rows, const index_t* row_offsets, const index_t* col_indices, int ordinal);

template <class T>
Array<index_t> order_by_clusters(const CsrMatrix<T>& csr);

template <class T>
CsrMatrix<T> reordered(const CsrMatrix<T>& csr, const Array<index_t>& order);

template <class T>
Array<index_t> entries_before(const CsrMatrix<T>& csr, const Array<index_t>& order);

}  // namespace spmvgpu::cuda
