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

#include "formats/papers/ell/slots.hpp"

namespace spmvgpu {

template <class T>
struct Ellpack {
    static constexpr const char* kName = "ellpack";
    static constexpr Traits kTraits{
        .multiplies_columns = true, .builds_on_gpu = true, .new_values = NewValues::kPass, .only_if_asked = true};
    using value_type = T;
    using Tuning = PaddedTuning;
    using Plan = EllPlan<Tuning>;

    index_t rows = 0, cols = 0, nnz = 0;
    EllSlots<T> slots;  // one thread per row
    Tuning tuning;

    template <class Self, class Visit>
    static void each_array(Self& self, Visit&& visit) {
        EllSlots<T>::each_array(self.slots, visit);
    }

    static Plan plan(const CsrMatrix<T>& csr, const Tuning& tuning, const Target& target);
    static Ellpack from_csr(const CsrMatrix<T>& csr, const Plan& plan);
    CsrMatrix<T> to_csr() const;
    std::size_t workspace_bytes() const { return 0; }

    void spmv(const Product<T>& product) const;                                  // on the CPU
    void multiply_panel(const Product<T>& product) const;                        // several vectors on the CPU
    void spmv_cuda(const Product<T>& product, Stream stream) const;              // kernels.cu
    void multiply_columns_cuda(const Product<T>& product, Stream stream) const;  // formats/papers/ell/columns.cu
};

}  // namespace spmvgpu
