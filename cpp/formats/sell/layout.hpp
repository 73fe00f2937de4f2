// SELL-C-sigma, sliced ELLPACK: slices of 32 rows, each padded to its own longest row and stored column by column, so
// that the 32 lanes of a warp read 32 neighbouring slots. Kreutzer et al. 2014 (sigma sorting), Monakov et al. 2010
// (slices).
//
// clang-format off
//     rows (slice_rows = 2)      slice 0, width 3     slice 1, width 2
//     [ 1 7 . . ]                1 7 -                5 6
//     [ 2 8 3 . ]                2 8 3                4 -
//     [ 5 . 6 . ]
//     [ . 4 . . ]      values        1 2  7 8  - 3    5 4  6 -         length slice_offsets[slices]
//                      col_indices   0 0  1 1 -1 2    0 1  2 -1        length slice_offsets[slices]
//                      slice_offsets 0  6  10                          length slices + 1
// clang-format on
//
// A padded slot has column -1 and is skipped, never multiplied. With sigma > 1, rows are sorted by length within
// windows of sigma rows before they are sliced; `permutation` gives the row of y for a slot, and is folded into the
// store. Do not use it where row lengths differ wildly within a window: the padding is refused beyond max_padding.
#pragma once

#include "formats/format.hpp"
#include "formats/shared/slices.hpp"

namespace spmvgpu {

inline constexpr times::Terms kSellCosts = times::costs({{times::kLaunch, 0.663},
                                                         {times::kXStart, 5.59},
                                                         {times::kMemory, 0.289},
                                                         {times::kCache, 0.156},
                                                         {times::kXMemory, 11},
                                                         {times::kXCache, 2.61},
                                                         {times::kUnsorted, 2},
                                                         {times::kXLines, 3.65},
                                                         {times::kSums, 2.88},
                                                         {times::kDepth, 0.0858},
                                                         {times::kSorted, 0.198},
                                                         {times::kLoads, 0.389}});

struct SellTuning {
    int sigma = 0;             // window of the sort in rows; 1 keeps the order; 0 sorts only where it saves padding
    int warps_per_slice = 0;   // CUDA: warps that share the columns of a slice; 0 chooses from the size of the matrix
    double max_padding = 4.0;  // refuse to store more slots than this per non-zero

    template <class Self, class Visit>
    static void each_param(Self& self, Visit&& visit) {
        visit("sigma", self.sigma, OneOf{0, 1, 32, 128, 256, 512, 1024, 4096, 16384});
        visit("warps_per_slice", self.warps_per_slice, OneOf{0, 1, 2, 4, 8, 16, 32});
        visit("max_padding", self.max_padding, Range{1.0, 1e6});
    }

    static std::vector<Options> candidates();
};

struct SellPlan {
    SellTuning tuning;
    Cost cost;
    Slices slices;
};

template <class T>
struct Sell {
    static constexpr const char* kName = "sell";
    static constexpr Traits kTraits{.multiplies_columns = true, .builds_on_gpu = true, .new_values = NewValues::kPass};
    static constexpr index_t kSliceRows = 32;  // a warp's lanes
    using value_type = T;
    using Tuning = SellTuning;
    using Plan = SellPlan;

    index_t rows = 0, cols = 0, nnz = 0;
    index_t slices = 0;
    Array<index_t> slice_offsets;  // length slices + 1
    Array<index_t> col_indices;    // length slice_offsets[slices]; -1 marks padding
    Array<T> values;               // length slice_offsets[slices]
    Array<index_t> permutation;    // length rows: row of y for a slot of a slice; empty if sigma is 1
    Tuning tuning;
    int node_rows = 1;  // see find_node_rows; 1 if rows were sorted

    template <class Self, class Visit>
    static void each_array(Self& self, Visit&& visit) {
        visit("slice_offsets", self.slice_offsets);
        visit("col_indices", self.col_indices);
        visit("values", self.values);
        visit("permutation", self.permutation);
    }

    static Plan plan(const CsrMatrix<T>& csr, const Tuning& tuning, const Target& target);
    static Sell from_csr(const CsrMatrix<T>& csr, const Plan& plan);
    CsrMatrix<T> to_csr() const;
    std::size_t workspace_bytes() const { return 0; }
    index_t row_at(index_t i) const { return permutation.size() ? permutation[i] : i; }

    void spmv(const Product<T>& product) const;
    void multiply_panel(const Product<T>& product) const;
    void spmv_cuda(const Product<T>& product, Stream stream) const;
    void multiply_columns_cuda(const Product<T>& product, Stream stream) const;
};

}  // namespace spmvgpu
