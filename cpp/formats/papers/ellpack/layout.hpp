// ELLPACK: every row padded to the length of the longest, stored column by column, so that neighbouring threads, a row
// each, read neighbouring slots. Bell and Garland 2008, as in Yin et al. 2012, section 2.
//
// clang-format off
//     [ 1 7 . . ]      rows moved to the left, width 3      values       1 2 5 6   7 8 3 4    -  - 9  -
//     [ . 2 8 . ]          1 7 -                            col_indices  0 1 0 1   1 2 2 3   -1 -1 3 -1
//     [ 5 . 3 9 ]          2 8 -                                         column 0  column 1  column 2
//     [ . 6 . 4 ]          5 3 9
//                          6 4 -      A column is `pitch` slots: the rows, rounded up to a multiple of 32.
// clang-format on
//
// A padded slot has column -1 and is skipped, never multiplied; but it is read. Do not use it where some rows are much
// longer than the mean: one long row sets the width of all, and beyond max_padding the matrix is refused. SELL stores
// less padding on any matrix; ELLPACK is here for its simplicity, and as the regular part of other formats.
#pragma once

#include "formats/papers/ell/layout.hpp"

namespace spmvgpu {

struct EllpackKind {
    static constexpr const char* kName = "ellpack";
    static constexpr bool kHasLengths = false;
    using Tuning = PaddedTuning;
};

template <class T>
using Ellpack = Ell<T, EllpackKind>;

}  // namespace spmvgpu
