// SDIA, symmetric diagonals: the main diagonal of a symmetric or Hermitian matrix and the diagonals above it, as in
// dia. Every stored entry is multiplied twice, in its own row and in the row of its mirror image.
//
// clang-format off
//     [ 1 5 . . ]      offsets of `upper`   0         1          ascending, from 0 on
//     [ 5 2 6 . ]      values               1 2 3 4   5 6 7 -
//     [ . 6 3 7 ]
//     [ . . 7 4 ]      row 2 reads 6 (as the mirror image, at row 1), 3 and 7
// clang-format on
//
// A slot lies at its row, so the mirror image of an entry d places right of the diagonal is d slots earlier. It was
// read as an entry d rows before, and comes from a cache, unless the rows between exceed it.
//
// Some rows of a symmetric matrix may be stored as well, with the columns that they reach, as on one of several
// devices. Every column from `first_col` on, before which there are no entries, then stands for a row of a matrix whose
// rows from `before` on are stored; entries left of those columns are stored as mirror images above:
//
// clang-format off
//     [ 6 3 7 . ]      before 1             offset 0          offset 1
//     [ . 7 4 8 ]      values of `upper`    - 3 4             6 7 8
// clang-format on
//
// The smallest of all formats for symmetric grids and bands: 5- and 7-point grids take 0.6 of the bytes that dia takes.
// Do not use it where the diagonals are not full; beyond max_padding the matrix is refused, as it is by dia.
//
// After Saad, SPARSKIT 1990 (the symmetric variant of its diagonal format).
#pragma once

#include <vector>

#include "formats/dia/layout.hpp"
#include "formats/shared/symmetry.hpp"

namespace spmvgpu {

struct SdiaTuning {
    int block_size = 128;                 // CUDA: threads per block
    Symmetry symmetry = Symmetry::kAuto;  // of a complex matrix: the entry (j, i) where (i, j) is stored
    double max_padding = 4.0;             // refuse to multiply more slots than this per non-zero

    template <class Self, class Visit>
    static void each_param(Self& self, Visit&& visit) {
        visit("block_size", self.block_size, OneOf{64, 128, 256, 512});
        visit("symmetry", self.symmetry, Names{"auto", "symmetric", "hermitian"});
        visit("max_padding", self.max_padding, Range{1.0, 1e6});
    }

    static std::vector<Options> candidates();
};

struct SdiaPlan {
    SdiaTuning tuning;
    Cost cost;
    Array<index_t> offsets;  // offsets of the stored diagonals
    bool has_main = false;   // true if the first of them is the main one
    index_t first_col = 0, before = 0;
};

template <class T>
struct Sdia {
    static constexpr const char* kName = "sdia";
    static constexpr Traits kTraits{.needs_symmetry = true,
                                    .reads_whole_diagonals = true,
                                    .multiplies_panels = false,
                                    .multiplies_columns = true,
                                    .builds_on_gpu = true,
                                    .new_values = NewValues::kPass};
    using value_type = T;
    using Tuning = SdiaTuning;
    using Plan = SdiaPlan;

    index_t rows = 0, cols = 0, nnz = 0;  // of the whole matrix
    index_t first_col = 0, before = 0;    // columns without entries; other columns before the first row's diagonal
    bool has_main = false;                // true if the first diagonal is the main one
    Dia<T> upper;                         // a row for each of those other columns, and then the rows
    Tuning tuning;

    template <class Self, class Visit>
    static void each_array(Self& self, Visit&& visit) {
        Dia<T>::each_array(self.upper, visit);
    }

    // Number of stored diagonals that also stand for another one.
    index_t mirrored() const { return upper.diagonals() - (has_main ? 1 : 0); }
    index_t diagonals() const { return upper.diagonals() + mirrored(); }
    index_t dot_parts() const { return parts_of_rows(rows); }
    Mirror<T> mirror() const { return Mirror<T>(tuning.symmetry == Symmetry::kHermitian); }

    static Plan plan(const CsrMatrix<T>& csr, const Tuning& tuning, const Target& target);
    static Sdia from_csr(const CsrMatrix<T>& csr, const Plan& plan);
    CsrMatrix<T> to_csr() const;
    std::size_t workspace_bytes() const { return 0; }

    void spmv(const Product<T>& product) const;
    void spmv_cuda(const Product<T>& product, Stream stream) const;
    void multiply_columns_cuda(const Product<T>& product, Stream stream) const;
};

}  // namespace spmvgpu
