// The check that half of a matrix stands for all of it.
#pragma once

#include <string>

#include "core/csr_matrix.hpp"

namespace spmvgpu {

// How the entry (j, i) follows from (i, j): it is the same, or its conjugate. kAuto: as the matrix has it.
enum class Symmetry { kAuto, kSymmetric, kHermitian };

// The symmetry of a matrix, of a real one that which is asked for, as both are the same. Throws FormatError, in the
// name of a format that needs it, unless the matrix is square and stores with every entry (i, j) an entry (j, i) that
// is as `asked`. "The same" is to the last bit, so that half of the matrix gives the other half back; of a conjugate,
// but for the sign of a zero imaginary part. Names the first entry, in row order, of which that is not so.
template <class T>
Symmetry check_symmetric(const std::string& format, const CsrMatrix<T>& matrix, Symmetry asked);

// Says of which entry a square matrix is not symmetric, or not Hermitian; "" where it is.
template <class T>
std::string asymmetry(const CsrMatrix<T>& matrix, bool hermitian);

}  // namespace spmvgpu
