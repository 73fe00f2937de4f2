// What the performance model wants to know about a matrix. Row lengths are read in full, columns and values at samples
// that are spread evenly; so it costs a small fraction of a conversion, and the same matrix always has the same
// features.
#pragma once

#include "core/csr_matrix.hpp"
#include "core/passes/bits.hpp"
#include "formats/features.hpp"

namespace spmvgpu {

// A canonical matrix in CSR, with values of any type.
struct AnyCsr {
    index_t rows, cols, nnz;
    const index_t *row_offsets, *col_indices;
    const Word* values;
    int item_bytes;
};
template <class T>
AnyCsr any_csr(const CsrMatrix<T>& csr) {
    return {csr.rows,
            csr.cols,
            csr.nnz,
            csr.row_offsets.data(),
            csr.col_indices.data(),
            reinterpret_cast<const Word*>(csr.values.data()),
            sizeof(T)};
}

// Of arrays in host memory.
Features extract_features(const AnyCsr& csr);

// Of arrays on a GPU, where they are found: features.cu, in a build with CUDA.
Features extract_features_on_gpu(const AnyCsr& csr, int ordinal);

}  // namespace spmvgpu
