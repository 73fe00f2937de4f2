// CSR-B: CSR whose non-zeros are cut into fragments of equal length, one thread block each, so that every block has the
// same work however the rows are distributed. Yin et al. 2012, section 5.2.
//
// clang-format off
//     [ 1 7 . . ]      row_offsets   0   2   4       7     9        length rows + 1
//     [ . 2 8 . ]      col_indices   0 1 1|2 0 2|3 1 3              length nnz
//     [ 5 . 3 9 ]      values        1 7 2|8 5 3|9 6 4              length nnz
//     [ . 6 . 4 ]                fragment 0  1     2                of 3 non-zeros here, of 1024 by default
//                      bounds      (0,1) (1,2) (2,3)                first and last row of each fragment
// clang-format on
//
// First kernel: a block writes the products of its fragment to shared memory, and groups of lanes (half warps, as in
// the paper) add up its rows there. A row that lies in one fragment is done. A row that crosses into other fragments
// leaves one partial sum per fragment, and a second kernel adds these in order, without atomics. Empty rows belong to
// the fragment whose first row follows them, and the ones at the end to the last fragment.
//
// Do not use it where most rows are empty, since a block walks every row between its bounds, nor for long even rows,
// which `csr` and `sell` multiply without the detour through shared memory. On the CPU the bounds are not used: there
// the product is that of `csr`, whose split by rows and non-zeros is as even.
#pragma once

#include "formats/format.hpp"
#include "formats/shared/spans.hpp"

namespace spmvgpu {

struct CsrBTuning {
    static constexpr int kBlockSize = 256;  // CUDA: threads per block; Yin 2012, section 5.1 (5)

    int fragment = 1024;     // non-zeros per thread block
    int lanes_per_row = 16;  // lanes that add up a row; 16 is the paper's half warp

    template <class Self, class Visit>
    static void each_param(Self& self, Visit&& visit) {
        visit("fragment", self.fragment, OneOf{256, 512, 1024, 2048, 4096});
        visit("lanes_per_row", self.lanes_per_row, OneOf{1, 2, 4, 8, 16, 32});
    }

    static std::vector<Options> candidates();
};

struct CsrBPlan {
    CsrBTuning tuning;
    Cost cost;
    Array<RowBound> bounds;
    Array<RowSpan> spans;
    std::int64_t rounds = 0, longest_rounds = 0;  // of loads, on a GPU: of all thread blocks, and of the busiest

    template <class Visit>
    void each_count(const Visit& visit) const {
        visit("rounds", rounds);
        visit("longest_rounds", longest_rounds);
    }
};

template <class T>
struct CsrB {
    static constexpr const char* kName = "csr_b";
    static constexpr Traits kTraits{.builds_on_gpu = true, .new_values = NewValues::kCopy, .only_if_asked = true};
    using value_type = T;
    using Tuning = CsrBTuning;
    using Plan = CsrBPlan;

    index_t rows = 0, cols = 0, nnz = 0;
    Array<index_t> row_offsets;  // length rows + 1
    Array<index_t> col_indices;  // length nnz
    Array<T> values;             // length nnz
    Array<RowBound> bounds;      // length fragments; one without non-zeros for a matrix that has none
    Array<RowSpan> spans;        // rows that cross fragments, with their first and last one; empty on the CPU
    Tuning tuning;

    template <class Self, class Visit>
    static void each_array(Self& self, Visit&& visit) {
        visit("row_offsets", self.row_offsets);
        visit("col_indices", self.col_indices);
        visit("values", self.values);
        visit("bounds", self.bounds);
        visit("spans", self.spans);
    }

    static Plan plan(const CsrMatrix<T>& csr, const Tuning& tuning, const Target& target);
    static CsrB from_csr(const CsrMatrix<T>& csr, const Plan& plan);
    CsrMatrix<T> to_csr() const;

    // Two partial sums a fragment: for its first row, if that began before, and for its last, if that goes on.
    std::size_t workspace_bytes() const { return spans.size() ? 2 * sizeof(T) * bounds.size() : 0; }

    void spmv(const Product<T>& product) const;
    void multiply_panel(const Product<T>& product) const;
    void spmv_cuda(const Product<T>& product, Stream stream) const;
};

}  // namespace spmvgpu
