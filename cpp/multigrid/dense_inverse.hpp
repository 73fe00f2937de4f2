// The inverse of a small dense matrix, for the coarsest level.
#pragma once

#include "core/types.hpp"

namespace spmvgpu::multigrid {

// Replaces a Hermitian matrix, n rows of n, by its inverse, by Gauss and Jordan's method without a choice of pivots.
// Returns false, and leaves anything there, if a pivot is below `least`, as one is unless the matrix is positive
// definite.
//
// LAPACK would do, if BLAS did not keep its threads spinning for 30 ms after each call: they take the cores from the
// copies and launches that follow.
template <class V>
bool invert_definite(index_t n, V* matrix, double least);

}  // namespace spmvgpu::multigrid
