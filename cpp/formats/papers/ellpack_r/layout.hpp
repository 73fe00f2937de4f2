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
// Padding takes memory as in ELLPACK, but is read only as far as the longest row of a warp goes: four bytes a row buy
// that. Faster than ELLPACK as soon as rows differ. Do not use it where a few rows are much longer than the rest: they
// still set the width of all, and beyond max_padding the matrix is refused.
#pragma once

#include "formats/papers/ellpack/layout.hpp"

namespace spmvgpu {

template <class T>
struct EllpackR {
    static constexpr const char* kName = "ellpack_r";
    static constexpr Traits kTraits{
        .multiplies_columns = true, .builds_on_gpu = true, .new_values = NewValues::kPass, .only_if_asked = true};
    using value_type = T;
    using Tuning = PaddedTuning;
    using Plan = EllPlan<Tuning>;

    index_t rows = 0, cols = 0, nnz = 0;
    Ellpack<T> ell;
    Array<index_t> row_lengths;  // length rows
    Tuning tuning;

    template <class Self, class Visit>
    static void each_array(Self& self, Visit&& visit) {
        Ellpack<T>::each_array(self.ell, visit);
        visit("row_lengths", self.row_lengths);
    }

    static Plan plan(const CsrMatrix<T>& csr, const Tuning& tuning, const Target& target);
    static EllpackR from_csr(const CsrMatrix<T>& csr, const Plan& plan);
    CsrMatrix<T> to_csr() const { return ell.to_csr(); }
    std::size_t workspace_bytes() const { return 0; }

    void spmv(const Product<T>& product) const;                                  // on the CPU
    void multiply_panel(const Product<T>& product) const;                        // several vectors on the CPU
    void spmv_cuda(const Product<T>& product, Stream stream) const;              // kernels.cu
    void multiply_columns_cuda(const Product<T>& product, Stream stream) const;  // formats/papers/ell/columns.cu
};

}  // namespace spmvgpu
