// The check that half of a matrix stands for all of it.
#pragma once

#include <string>

#include "core/csr_matrix.hpp"

namespace spmvgpu {

// Throws FormatError, in the name of a format that needs it, unless the matrix is square and stores with every entry
// (i, j) an entry (j, i) of the same bits. Names the first entry, in row order, of which that is not so.
template <class T>
void check_symmetric(const std::string& format, const CsrMatrix<T>& matrix);

}  // namespace spmvgpu
