// CsrMatrix<T>: a matrix in compressed sparse rows as bare arrays, the form in which matrices enter and leave. Products
// are done by formats: see formats/.
#pragma once

#include "core/array.hpp"
#include "core/types.hpp"

namespace spmvgpu {

// The sparsity pattern of a canonical matrix: its arrays without the values.
struct CsrPattern {
    index_t rows, cols, nnz;
    const index_t *row_offsets, *col_indices;
};

template <class T>
struct CsrMatrix {
    index_t rows = 0, cols = 0, nnz = 0;
    Array<index_t> row_offsets;  // length rows + 1
    Array<index_t> col_indices;  // length nnz, ascending in each row
    Array<T> values;             // length nnz

    // With uninitialised arrays in host memory.
    static CsrMatrix allocate(index_t rows, index_t cols, index_t nnz) {
        return {rows, cols, nnz, Array<index_t>(rows + std::size_t(1)), Array<index_t>(nnz), Array<T>(nnz)};
    }

    Device device() const { return row_offsets.device(); }
    CsrPattern pattern() const { return {rows, cols, nnz, row_offsets.data(), col_indices.data()}; }
    index_t row_length(index_t row) const { return row_offsets[row + 1] - row_offsets[row]; }

    // Bytes that other formats are compared with.
    std::size_t bytes() const {
        return nnz * (sizeof(T) + sizeof(index_t)) + (rows + std::size_t(1)) * sizeof(index_t);
    }
};

}  // namespace spmvgpu
