// A bound of the size of the factors of a matrix, before they are made.
#pragma once

#include "core/csr_matrix.hpp"

namespace spmvgpu {

struct FillBound {
    double entries = 0;     // in both factors
    double operations = 0;  // multiplications and additions of the factorisation
};

// A bound for L and U of a square matrix whose columns are eliminated in order, for any choice of pivots: the rows that
// have an entry in the column of a pivot all get the pattern of their union (George and Ng, SIAM J. Sci. Stat. Comput.
// 8, 1987). Rows are sorted. The computation ends after `most` operations.
FillBound fill_bound(const CsrPattern& A, double most);

}  // namespace spmvgpu
