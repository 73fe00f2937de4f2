#pragma once

#include "core/types.hpp"

namespace spmvgpu::multigrid {

// Replaces a Hermitian matrix, n rows of n, by its inverse, by Gauss and Jordan's method without pivoting. Returns
// false, and leaves the matrix undefined, if a pivot is below `least`, which happens unless the matrix is positive
// definite.
//
// LAPACK is not used, because BLAS keeps its threads spinning for 30 ms after each call, and they take the cores from
// the copies and launches that follow.
template <class V>
bool invert_definite(index_t n, V* matrix, double least);

}  // namespace spmvgpu::multigrid
