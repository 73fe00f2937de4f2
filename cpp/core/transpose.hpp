#pragma once

#include "core/csr_matrix.hpp"

namespace spmvgpu {

// The matrix is canonical and in host memory, and so is the result.
template <class T>
CsrMatrix<T> transpose(const CsrMatrix<T>& matrix);

}  // namespace spmvgpu
