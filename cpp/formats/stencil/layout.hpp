// Stencils: every different row is stored once, as its entries' distances from the diagonal and their values, and each
// row of the matrix has the number of its kind.
//
// clang-format off
//     [ 2 7 . . ]      kinds     0 1 1 2                        of each row
//     [ 5 2 7 . ]      masks     011 111 110                    of each kind, which entries of a stencil it has
//     [ . 5 2 7 ]      offsets   -1 0 1 *                       column - row, ascending
//     [ . . 5 2 ]      values     5 2 7 *                       * is padding: a stencil begins at a fourth slot
// clang-format on
//
// The slots of a stencil stay in the L1, so that a product moves x, y and two bytes a row. Rows are of one kind only if
// all of their values are equal to the last bit: nothing is rounded, and to_csr() gives back the input. A row that
// lacks entries, as at a boundary, may share the slots of one that has them.
//
// Layers are lines of a grid in two dimensions, or planes of one in three. If a stencil is equal in three layers, as
// with 9 or 27 points or finite elements, with a third of its slots in each, a thread of a GPU multiplies rows that are
// a layer apart, which share gathers of x.
//
// The smallest of all formats, by far, where coefficients do not vary: differences and elements on grids, with any
// number of unknowns at a node and any boundary conditions, in any number of dimensions. Do not use it elsewhere:
// beyond max_stencils different rows the matrix is refused.
//
// After the pattern-based representation of Belgin, Back and Ribbens, ICS 2009, whose patterns are small blocks, with
// the values stored.
#pragma once

#include <vector>

#include "core/passes/bits.hpp"
#include "formats/format.hpp"

namespace spmvgpu {

struct StencilTuning {
    int rows_per_thread = 0;     // CUDA: rows of a thread, which read slots together if possible; 0 chooses
    double max_stencils = 1024;  // refuse a matrix with more different rows than this

    template <class Self, class Visit>
    static void each_param(Self& self, Visit&& visit) {
        visit("rows_per_thread", self.rows_per_thread, OneOf{0, 1, 2, 4});
        visit("max_stencils", self.max_stencils, Range{1, 65535});
    }

    static std::vector<Options> candidates();
};

// Rows of one kind: the begin and number of the slots of their stencil, the begin of the words with a bit for each slot
// that they have, and the kind that has all of them. If the stencil is equal in three layers, also the number of slots
// in a third; three more words for them follow the words of all slots.
struct RowKind {
    static constexpr index_t kMostThird = kWordBits;

    index_t begin, length, masks;
    std::uint16_t owner, third;

    SPMVGPU_IN_BODY bool has_slot(const Word* words, index_t i) const {
        return (words[masks + i / kWordBits] >> i % kWordBits & 1) != 0;
    }
    SPMVGPU_IN_BODY index_t entries(const Word* words) const {
        index_t count = 0;
        for (index_t w = 0; w < words_for(length); ++w) count += count_bits(words[masks + w]);
        return count;
    }
    SPMVGPU_IN_BODY index_t slot_of(const Word* words, index_t i) const {
        index_t first = 0;
        Word rest = words[masks];
        for (; i >= count_bits(rest); first += kWordBits) {
            i -= count_bits(rest);
            rest = words[masks + first / kWordBits + 1];
        }
        while (i-- > 0) rest &= rest - 1;
        return first + lowest_bit(rest);
    }
};

struct StencilPlan {
    StencilTuning tuning;
    Cost cost;
    Array<std::uint16_t> kinds;
    Array<index_t> stencils, examples;
    Array<Word> masks;
    index_t slots = 0;         // in all stencils
    index_t layer_rows = 0;    // as in Stencil
    index_t col_end = 0;       // as in Stencil
    std::int64_t changes = 0;  // rows whose next row has another stencil

    template <class Visit>
    void each_count(const Visit& visit) const {
        visit("kinds", examples.size());
        visit("changes", changes);
    }
};

template <class T>
struct Stencil {
    static constexpr const char* kName = "stencil";
    static constexpr Traits kTraits{.multiplies_columns = true,
                                    .builds_on_gpu = true,
                                    .new_values = NewValues::kPass,
                                    .needs_rows_that_repeat = true};
    using value_type = T;
    using Tuning = StencilTuning;
    using Plan = StencilPlan;

    static constexpr index_t kTogether = 4;  // slots in one load: stencils begin at multiples of it

    index_t rows = 0, cols = 0, nnz = 0;
    Array<std::uint16_t> kinds;  // length rows
    Array<index_t> stencils;     // length 4 * kinds: a RowKind each
    Array<Word> masks;           // for each kind, a bit for each slot of its stencil
    Array<index_t> examples;     // length kinds: the first row of each, ascending
    Array<index_t> offsets;      // length slots; 0 where it is padding
    Array<T> values;             // length slots; 0 where it is padding
    index_t layer_rows = 0;      // rows from a layer to the next one, if stencils are equal in three
    index_t col_end = 0;         // no entry is in a later column
    bool is_finite = true;
    Tuning tuning;

    template <class Self, class Visit>
    static void each_array(Self& self, Visit&& visit) {
        visit("kinds", self.kinds);
        visit("stencils", self.stencils);
        visit("masks", self.masks);
        visit("examples", self.examples);
        visit("offsets", self.offsets);
        visit("values", self.values);
    }

    index_t kind_count() const { return static_cast<index_t>(examples.size()); }
    index_t dot_parts() const { return parts_of_rows(static_cast<index_t>(threads())); }

    // Threads of a block of a GPU, rows of a thread, their distance, and the number of threads. Smaller blocks leave
    // more of them to a processor; in larger ones, long rows find more of their x in the L1.
    static constexpr int kBlockRows = 128, kBlockRowsOfLong = 192;
    int block_rows() const {
        constexpr index_t kLong = 16;
        return layer_rows > 0 || nnz <= std::int64_t(kLong) * rows ? kBlockRows : kBlockRowsOfLong;
    }
    int rows_together() const { return is_finite ? tuning.rows_per_thread : 1; }
    index_t rows_apart() const { return layer_rows > 0 ? layer_rows : block_rows(); }
    std::int64_t threads() const {
        if (rows_together() == 1) return rows;
        const std::int64_t together = std::int64_t(rows_together()) * rows_apart();
        return (rows + together - 1) / together * rows_apart();
    }

    static Plan plan(const CsrMatrix<T>& csr, const Tuning& tuning, const Target& target);
    static Stencil from_csr(const CsrMatrix<T>& csr, const Plan& plan);
    CsrMatrix<T> to_csr() const;
    std::size_t workspace_bytes() const { return 0; }

    void spmv(const Product<T>& product) const;
    void multiply_panel(const Product<T>& product) const;
    void spmv_cuda(const Product<T>& product, Stream stream) const;
    void multiply_columns_cuda(const Product<T>& product, Stream stream) const;
};

}  // namespace spmvgpu
