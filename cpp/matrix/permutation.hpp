// Permutation: another order of the rows and columns of a square matrix, which the library found on the matrix's
// device. It stays there, and needs no further check.
#pragma once

#include "core/array.hpp"

namespace spmvgpu {

struct Permutation {
    Array<index_t> rows;  // row rows[i] becomes row i, and so do the columns
};

}  // namespace spmvgpu
