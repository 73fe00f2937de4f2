// Products of a matrix with several vectors in host memory.
#pragma once

#include "matrix/any_matrix.hpp"

namespace spmvgpu {

// y = A * x. A matrix on the CPU that multiplies rows of x at once does so; any other gets the vectors one by one.
// Every column has the bits that the product with it alone gives.
template <class T>
void multiply_columns(const AnyMatrix<T>& matrix, const Columns<const T>& x, const Columns<T>& y);

}  // namespace spmvgpu
