// The pattern of incomplete factors with levels of fill, ILU(k) (Saad, Iterative Methods for Sparse Linear Systems,
// section 10.3.3).
#pragma once

#include "core/csr_matrix.hpp"

namespace spmvgpu {

// A canonical square matrix in host memory, with zeros where its incomplete factors with these levels have more entries
// than it. Throws std::invalid_argument for more entries than an index_t counts, and OutOfMemory.
template <class T>
CsrMatrix<T> with_fill(const CsrMatrix<T>& A, int levels);

}  // namespace spmvgpu
