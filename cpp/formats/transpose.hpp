// The transposed matrix in CSR.
#pragma once

#include "formats/csr.hpp"

namespace spmvgpu {

// Of a canonical matrix in host memory; canonical too.
template <class T>
Csr<T> transpose(const Csr<T>& matrix);

}  // namespace spmvgpu
