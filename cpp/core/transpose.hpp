// The transposed matrix in CSR.
#pragma once

#include "core/csr_matrix.hpp"

namespace spmvgpu {

// Of a canonical matrix in host memory; canonical too.
template <class T>
CsrMatrix<T> transpose(const CsrMatrix<T>& matrix);

}  // namespace spmvgpu
