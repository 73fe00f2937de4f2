// Permutation: another order of the rows and columns of a square matrix, which the library found where the matrix lies.
// Nobody checks it again, and it stays there.
#pragma once

#include "core/array.hpp"

namespace spmvgpu {

struct Permutation {
    Array<index_t> rows;  // row rows[i] becomes row i, and so do the columns
};

}  // namespace spmvgpu
