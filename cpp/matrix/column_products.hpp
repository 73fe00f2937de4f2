// Products with several vectors in host memory, or with vectors whose entries do not lie next to each other.
#pragma once

#include "matrix/any_matrix.hpp"

namespace spmvgpu {

// By a matrix on the CPU, or by one of which every vector finds its own way to the devices. One that multiplies rows
// of x at once does so; any other gets the vectors one by one. Every column has the bits that the product with it alone
// gives.
template <class T>
void multiply_in_host_memory(const AnyMatrix<T>& matrix, const Product<T>& product);

}  // namespace spmvgpu
