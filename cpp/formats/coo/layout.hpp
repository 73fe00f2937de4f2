// COO, coordinates: one (row, column, value) triplet per non-zero, sorted by row. Bell and Garland 2009, as in Guo
// 2011.
//
// clang-format off
//     [ 1 7 . . ]      row_indices   0 0 1 1 2 2 2 3 3      length nnz
//     [ . 2 8 . ]      col_indices   0 1 1 2 0 2 3 1 3      length nnz
//     [ 5 . 3 9 ]      values        1 7 2 8 5 3 9 6 4      length nnz
//     [ . 6 . 4 ]
// clang-format on
//
// A warp takes a strip of consecutive non-zeros, whatever rows they lie in, and adds them up row by row with a
// segmented reduction. A row that crosses strips leaves one partial sum per strip, added in order by a second kernel:
// no atomics. Insensitive to the row lengths, and it never stores an empty row; but it reads a row index per non-zero,
// so on rows longer than two or three entries CSR moves fewer bytes.
#pragma once

#include "formats/format.hpp"
#include "formats/shared/spans.hpp"

namespace spmvgpu {

struct CooTuning {
    int strip = 0;  // non-zeros per warp; 0 chooses from nnz and the processors of the device

    template <class Self, class Visit>
    static void each_param(Self& self, Visit&& visit) {
        visit("strip", self.strip, OneOf{0, 64, 128, 256, 512, 1024});
    }

    static std::vector<Options> candidates();
};

struct CooPlan {
    CooTuning tuning;
    Cost cost;
    bool has_empty_rows = false;
    Array<RowSpan> spans;
};

template <class T>
struct Coo {
    static constexpr const char* kName = "coo";
    static constexpr Traits kTraits{.multiplies_columns = true, .builds_on_gpu = true, .new_values = NewValues::kCopy};
    // Columns for which a GPU reads the matrix once: each needs partial sums of every strip.
    static constexpr int kColumns = 8;
    using value_type = T;
    using Tuning = CooTuning;
    using Plan = CooPlan;

    index_t rows = 0, cols = 0, nnz = 0;
    bool has_empty_rows = false;  // then y is scaled by beta before the products are added to it
    Array<index_t> row_indices;   // length nnz, ascending
    Array<index_t> col_indices;   // length nnz, ascending within a row
    Array<T> values;              // length nnz
    Array<RowSpan> spans;         // rows that cross strips, with their first and last strip; empty on the CPU
    Tuning tuning;

    template <class Self, class Visit>
    static void each_array(Self& self, Visit&& visit) {
        visit("row_indices", self.row_indices);
        visit("col_indices", self.col_indices);
        visit("values", self.values);
        visit("spans", self.spans);
    }

    static Plan plan(const CsrMatrix<T>& csr, const Tuning& tuning, const Target& target);
    static Coo from_csr(const CsrMatrix<T>& csr, const Plan& plan);
    CsrMatrix<T> to_csr() const;

    index_t strips() const { return count_parts(nnz, tuning.strip); }
    // Two partial sums a strip and column: for the row that enters it from the left, and for the row that leaves it to
    // the right.
    static constexpr std::size_t workspace_bytes(index_t strips, std::size_t spans) {
        return spans > 0 ? 2 * kColumns * sizeof(T) * strips : 0;
    }
    std::size_t workspace_bytes() const { return workspace_bytes(strips(), spans.size()); }

    void spmv(const Product<T>& product) const;
    void multiply_panel(const Product<T>& product) const;
    void add_panel(const Product<T>& product) const;  // y += A * x for several vectors on the CPU
    void spmv_cuda(const Product<T>& product, Stream stream) const;
    void multiply_columns_cuda(const Product<T>& product, Stream stream) const;
};

}  // namespace spmvgpu
