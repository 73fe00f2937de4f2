// ELLR-T: an ELLPACK-R in which T threads share each row. Vazquez, Fernandez and Garzon 2011, as in Yin et al. 2012,
// section 5.3.
//
// clang-format off
//     [ 1 7 . . ]      threads_per_row = 2      threads      0 1   0 1   0 1   0 1
//     [ . 2 8 . ]                               values       1 7   2 8   5 3   6 4     column 0
//     [ 5 . 3 9 ]                                            - -   - -   9 -   - -     column 1
//     [ . 6 . 4 ]                               col_indices  0 1   1 2   0 2   1 3     column 0
//                                                           -1-1  -1-1   3-1  -1-1     column 1
//     width 2                                   row_lengths   2     2     3     2
// clang-format on
//
// The threads of a row take its entries in turn, and the entries are stored in the order of the threads, so that a warp
// still reads neighbouring slots; the T sums of a row meet by warp shuffles. It helps where there are too few rows to
// fill a device with a thread each, where rows are long, and where they differ: fewer rows wait for each other in a
// warp. Do not use it on short rows: a width that is not a multiple of T is padded to one. Beyond max_padding the
// matrix is refused.
#pragma once

#include "formats/papers/ell/layout.hpp"

namespace spmvgpu {

struct EllrTTuning : PaddedTuning {
    int threads_per_row = 0;  // 0 chooses from the number of rows and their mean length

    template <class Self, class Visit>
    static void each_param(Self& self, Visit&& visit) {
        visit("threads_per_row", self.threads_per_row, OneOf{0, 1, 2, 4, 8, 16, 32});
        PaddedTuning::each_param(self, visit);
    }

    static std::vector<Options> candidates();
};

struct EllrTKind {
    static constexpr const char* kName = "ellr_t";
    static constexpr bool kHasLengths = true;
    using Tuning = EllrTTuning;
};

template <class T>
using EllrT = Ell<T, EllrTKind>;

}  // namespace spmvgpu
