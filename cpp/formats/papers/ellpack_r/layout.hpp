// ELLPACK-R: an ELLPACK and the length of every row, so that a thread stops at the end of its row. Vazquez et al. 2009,
// as in Yin et al. 2012, section 3.2.
//
// clang-format off
//     [ 1 7 . . ]      the ELLPACK of the same matrix (formats/papers/ellpack/layout.hpp), and
//     [ . 2 8 . ]
//     [ 5 . 3 9 ]      row_lengths  2 2 3 2      length rows
//     [ . 6 . 4 ]
// clang-format on
//
// Padding takes memory as in ELLPACK, but is read only as far as the longest row of a warp goes, at the cost of four
// bytes a row. Faster than ELLPACK as soon as rows differ. Do not use it where a few rows are much longer than the
// rest: they still set the width of all, and beyond max_padding the matrix is refused.
#pragma once

#include "formats/papers/ell/layout.hpp"

namespace spmvgpu {

struct EllpackRKind {
    static constexpr const char* kName = "ellpack_r";
    static constexpr bool kHasLengths = true;
    using Tuning = PaddedTuning;
};

template <class T>
using EllpackR = Ell<T, EllpackRKind>;

}  // namespace spmvgpu
