// Blocked SELL: SELL-C-sigma of dense square blocks instead of entries, with a column of 16 bits for each block.
//
// clang-format off
//     block rows (2 x 2 blocks, 2 block rows a slice)      slice 0, width 2
//     [ a b | . . | e f ]                                  A E
//     [ c d | . . | g h ]                                  I -
//     [ . . | i j | . . ]
//     [ . . | k l | . . ]      bases       0  2              length slots, the least block column of each
//                              near_cols   0 1   0 -         to be added to it; - is padding
//                              values      a i  b j  c k  d l   e 0  f 0  g 0  h 0
//                              slice_offsets 0 4             length slices + 1
// clang-format on
//
// A slot is a column of a slice: 32 places, a block or padding each. Neighbouring block rows have their blocks in much
// the same columns, which then differ from the least of a slot by less than 65,535. Otherwise the slot's columns are 32
// bits wide and lie in far_cols, and its base is the complement of their position. The matrix consists of whole blocks,
// with every entry stored: the blocks of finite elements with several unknowns at a node, or single entries. Padding is
// zero times zero, so entries that are not stored have no effect.
//
// Moves 2 bytes of columns where sell moves 4 for each entry of a block, and reads x once for all rows of a block. Do
// not use it where rows have little to do with their neighbours: then most slots are wide.
//
// After Choi, Singh and Vuduc, PPoPP 2010 (blocked ELLPACK, in slices), with columns as in Kourtis, Goumas and Koziris,
// CF 2008 (differences of fewer bytes).
#pragma once

#include <cstdint>

#include "core/passes/bits.hpp"
#include "formats/format.hpp"
#include "formats/shared/slices.hpp"

namespace spmvgpu {

inline constexpr times::Terms kBsellCosts = times::costs({{times::kLaunch, 0.935},
                                                          {times::kXStart, 3.41},
                                                          {times::kMemory, 0.312},
                                                          {times::kCache, 0.185},
                                                          {times::kXMemory, 11},
                                                          {times::kXCache, 3.92},
                                                          {times::kUnsorted, 1},
                                                          {times::kXLines, 1.58},
                                                          {times::kSums, 5.52},
                                                          {times::kDepth, 0.0255},
                                                          {times::kSorted, 0.123},
                                                          {times::kLoads, 0.438},
                                                          {times::kGathers, 0.133}});

struct BsellTuning {
    int max_block = 6;  // rows and columns of a block, at most: the largest that the matrix consists of
    int sigma = 0;      // window of the sort in block rows; 1 keeps the order; 0 sorts only where it saves padding
    int warps_per_slice = 0;   // CUDA: warps that share the slots of a slice; 0 chooses from the size of the matrix
    double max_padding = 4.0;  // refuse to store more places for entries than this per non-zero

    static constexpr int kMostWarps = 8;
    static constexpr int kBlocks[] = {6, 4, 3, 2};  // block sizes that are tried, the largest first

    template <class Self, class Visit>
    static void each_param(Self& self, Visit&& visit) {
        visit("max_block", self.max_block, OneOf{1, 2, 3, 4, 6});
        visit("sigma", self.sigma, OneOf{0, 1, 32, 128, 256, 512, 1024, 4096, 16384});
        visit("warps_per_slice", self.warps_per_slice, OneOf{0, 1, 2, 4, kMostWarps});
        visit("max_padding", self.max_padding, Range{1.0, 1e6});
    }

    static std::vector<Options> candidates();
};

struct BsellPlan {
    BsellTuning tuning;
    Cost cost;
    int block = 1;
    Slices slices;               // slices of block rows
    Array<index_t> far_offsets;  // length slices + 1: wide slots before each slice
    index_t far_slots = 0;

    template <class Visit>
    void each_count(const Visit& visit) const {
        visit("block", block);
    }
};

template <class T>
struct Bsell {
    static constexpr const char* kName = "bsell";
    static constexpr Traits kTraits{.multiplies_columns = true, .builds_on_gpu = true, .new_values = NewValues::kPass};
    static constexpr std::uint16_t kPadding = 65535;
    using value_type = T;
    using Tuning = BsellTuning;
    using Plan = BsellPlan;

    index_t rows = 0, cols = 0, nnz = 0;
    index_t slices = 0;
    Array<index_t> slice_offsets;    // length slices + 1, in places
    Array<index_t> bases;            // length slots: the least block column, or the complement of a wide slot's number
    Array<std::uint16_t> near_cols;  // length places: block column less the base; kPadding
    Array<index_t> far_cols;         // length 32 * wide slots: block columns; -1 is padding
    Array<T> values;                 // length places * block^2: of a slot, place by place, for each entry of a block
    Array<index_t> permutation;      // length block rows: the block row at a place of a slice; empty where sigma is 1
    Tuning tuning;
    int block = 1;

    template <class Self, class Visit>
    static void each_array(Self& self, Visit&& visit) {
        visit("slice_offsets", self.slice_offsets);
        visit("bases", self.bases);
        visit("near_cols", self.near_cols);
        visit("far_cols", self.far_cols);
        visit("values", self.values);
        visit("permutation", self.permutation);
    }

    static constexpr int in_flight(int block) { return block == 1 ? 4 : block == 2 ? 2 : 1; }
    index_t block_rows() const { return rows / block; }
    index_t block_row_at(index_t i) const { return permutation.size() ? permutation[i] : i; }

    static Plan plan(const CsrMatrix<T>& csr, const Tuning& tuning, const Target& target);
    static Bsell from_csr(const CsrMatrix<T>& csr, const Plan& plan);
    CsrMatrix<T> to_csr() const;
    std::size_t workspace_bytes() const { return 0; }

    void spmv(const Product<T>& product) const;
    void multiply_panel(const Product<T>& product) const;
    void spmv_cuda(const Product<T>& product, Stream stream) const;
    void multiply_columns_cuda(const Product<T>& product, Stream stream) const;
};

struct BlockColumns {
    const index_t* bases;
    const std::uint16_t* near_cols;
    const index_t* far_cols;

    // The column of the block at a place of a slot; -1 if that is padding.
    SPMVGPU_IN_BODY index_t at(index_t slot, index_t lane) const {
        const std::uint16_t distance = near_cols[std::int64_t(slot) * kSliceLanes + lane];
        const index_t base = bases[slot];
        if (base < 0) return far_cols[std::int64_t(~base) * kSliceLanes + lane];
        return distance == Bsell<float>::kPadding ? -1 : base + distance;
    }
};

template <class T>
BlockColumns columns_of(const Bsell<T>& bsell) {
    return {bsell.bases.data(), bsell.near_cols.data(), bsell.far_cols.data()};
}

// Position in `values` of one entry of the blocks of a slot, for all places of the slot.
constexpr std::int64_t entry_offset(std::int64_t slot, int block, int row, int col) {
    return ((slot * block + row) * block + col) * kSliceLanes;
}

}  // namespace spmvgpu
