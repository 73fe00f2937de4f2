// HYB, hybrid: the first `width` entries of every row in an ELL part, the rest of the few longer rows in a COO part.
// Bell and Garland 2009, as in Guo et al. 2011, section 3, and in cuSPARSE's AUTO, USER and MAX of Yang et al. 2015.
//
// clang-format off
//     [ 1 7 . . ]      ELL part, width 2            COO part
//     [ . 2 8 . ]          values       1 2 5 6  7 8 3 4      row_indices  2
//     [ 5 . 3 9 ]          col_indices  0 1 0 1  1 2 2 3      col_indices  3
//     [ . 6 . 4 ]                                             values       9
// clang-format on
//
// The parts are whole formats: see formats/papers/ellpack/layout.hpp and formats/coo/layout.hpp for their layouts. The
// ELL kernel writes every row of y; the COO kernels then add to the rows that go on there.
//
// Width 0 chooses by Bell and Garland's rule: a column is worth its padding while at least a third of the rows, and at
// least 4096 rows, reach it, so a small matrix lies entirely in the COO part. "max" puts everything into the ELL part.
// Do not use it where the row lengths spread evenly (`csr`, `sell`): either part is then large, the one with padding,
// the other with row indices. A width whose padding passes max_padding is refused.
#pragma once

#include "formats/coo/layout.hpp"
#include "formats/papers/ellpack/layout.hpp"

namespace spmvgpu {

struct HybTuning {
    static constexpr int kMaxWidth = 2147483647;  // wider than any row

    int width = 0;     // entries of a row that go to the ELL part; 0 chooses from the row lengths
    PaddedTuning ell;  // with max_padding for both parts together
    CooTuning coo;

    template <class Self, class Visit>
    static void each_param(Self& self, Visit&& visit) {
        visit("width", self.width, CountOr{kMaxWidth - 1, "max"});
        PaddedTuning::each_param(self.ell, visit);
        CooTuning::each_param(self.coo, visit);
    }

    static std::vector<Options> candidates();
};

struct HybPlan {
    HybTuning tuning;
    Cost cost;
    index_t width = 0;  // width of the ELL part
    EllPlan<PaddedTuning> ell;
    CooPlan coo;
    Array<index_t> rest_offsets;  // begins of the rows in the COO part; length rows + 1

    template <class Visit>
    void each_count(const Visit& visit) const {
        visit("coo_entries", coo.cost.entries);
    }
};

template <class T>
struct Hyb {
    static constexpr const char* kName = "hyb";
    static constexpr Traits kTraits{
        .multiplies_columns = true, .builds_on_gpu = true, .new_values = NewValues::kPass, .only_if_asked = true};
    using value_type = T;
    using Tuning = HybTuning;
    using Plan = HybPlan;

    index_t rows = 0, cols = 0, nnz = 0;
    Ellpack<T> ell;  // the first entries of every row
    Coo<T> coo;      // the other entries; with all rows and columns
    Tuning tuning;

    template <class Self, class Visit>
    static void each_array(Self& self, Visit&& visit) {
        Ellpack<T>::each_array(self.ell, [&](std::string name, auto& array) { visit(("ell_" + name).c_str(), array); });
        Coo<T>::each_array(self.coo, [&](std::string name, auto& array) { visit(("coo_" + name).c_str(), array); });
    }

    static Plan plan(const CsrMatrix<T>& csr, const Tuning& tuning, const Target& target);
    static Hyb from_csr(const CsrMatrix<T>& csr, const Plan& plan);
    CsrMatrix<T> to_csr() const;
    std::size_t workspace_bytes() const { return coo.workspace_bytes(); }

    void spmv(const Product<T>& product) const;
    void multiply_panel(const Product<T>& product) const;
    void spmv_cuda(const Product<T>& product, Stream stream) const;
    void multiply_columns_cuda(const Product<T>& product, Stream stream) const;
};

}  // namespace spmvgpu
