// How large the factors of a matrix may become, before they are made.
#pragma once

#include "core/csr_matrix.hpp"

namespace spmvgpu {

struct FillBound {
    double entries = 0;     // of both factors
    double operations = 0;  // additions and multiplications that make them
};

// A bound for L and U of a square matrix whose columns are eliminated in their order, whichever rows the pivots are
// chosen from: the rows that have an entry in the column of a pivot all get the pattern of their union (George and Ng,
// SIAM J. Sci. Stat. Comput. 8, 1987). Rows are sorted. Once there are more than `most` operations the rest is left
// out.
FillBound fill_bound(const CsrPattern& A, double most);

}  // namespace spmvgpu
