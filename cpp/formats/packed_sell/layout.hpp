// packed_sell: slices of 32 rows, as in sell, whose column indices and values are compressed without loss. A slot is a
// column of a slice, with an entry of each row at most. Up to 32 slots are a group, whose head of 16 bytes says how to
// read the stream: all positions follow from it. A product multiplies exactly the stored values, in the order of the
// columns.
//
// clang-format off
//     rows (slices of 3)                 slots of slice 0                      head: shared 11, constant 01
//     [ 2 7 . . . ]     column - row     0: 2  2  2    every lane              base 0, constant 2
//     [ . 2 8 . . ]                      1: 7  8  5    every lane              base 1, values
//     [ . . 2 5 . ]
//     [ 1 . . . 9 ]                      slots of slice 1                      head: shared 00, constant 10, 8 bits
//     [ . . 3 . . ]                      0: 1  3  .    lanes 0 and 1           base -3, offsets 0 1 -, values
//                                        1: 9  .  .    lane 0                  base 1, offsets 0 - -, constant 9
//
//     heads  | slice 0 | slice 1 | ...                                         of the first group of each slice
//                 |
//     stream      '-> | head of the next group | bases | constants | indices | values |
//                        if there is one         of slots                              sections of whole 32 bytes
// clang-format on
//
// The column of a lane is base + row + offset, the offset being none or an unsigned number of 8, 16 or 32 bits, all
// ones of which mean that the lane has no entry; a slot without offsets that has such lanes has a mask. Values are
// full, codes of the dictionary of the matrix, or one for all lanes. A group has one width of offsets and one kind of
// values, the smallest that keep every bit. Lanes without an entry have an element that is never read: such a lane
// neither reads x nor multiplies. Slots for the diagonals that a slice touches replace slots for the entries of the
// longest row where they are few more and take no more bytes: columns then need only a mask.
//
// With sigma > 1 rows are sorted by length within windows of sigma rows, as in sell. Do not use it for values that are
// all different, with columns anywhere: they take as many bytes as in sell and more work to read. Do not use it where
// row lengths differ wildly within a window either: lanes without an entry idle and take bytes, and more than
// max_padding of them are refused.
//
// After: Monakov et al. 2010 (slices), Willcock and Lumsdaine 2006 and Kourtis et al. 2008 (compressed indices and
// values).
#pragma once

#include <vector>

#include "core/host_vector.hpp"
#include "formats/format.hpp"
#include "formats/packed_sell/modes.hpp"
#include "formats/shared/slices.hpp"

namespace spmvgpu {

inline constexpr times::Terms kPackedSellCosts = times::costs({{times::kLaunch, 1.62},
                                                               {times::kXStart, 2.3},
                                                               {times::kMemory, 0.295},
                                                               {times::kCache, 0.172},
                                                               {times::kXCache, 4.73},
                                                               {times::kUnsorted, 0.187},
                                                               {times::kPermuted, 6.29},
                                                               {times::kSlots, 1.19},
                                                               {times::kSums, 7.39},
                                                               {times::kWaves, 0.156},
                                                               {times::kDepth, 0.215},
                                                               {times::kSorted, 0.835},
                                                               {times::kLoads, 0.408},
                                                               {times::kGathers, 0.139}});

struct PackedSellTuning {
    int sigma = 0;             // window of the sort in rows; 1 keeps the order; 0 sorts only if many lanes would idle
    int warps_per_slice = 0;   // CUDA: warps that share the slots of a slice; 0 chooses from the size of the matrix
    double max_padding = 4.0;  // refuse more lanes per non-zero than this

    template <class Self, class Visit>
    static void each_param(Self& self, Visit&& visit) {
        visit("sigma", self.sigma, OneOf{0, 1, 32, 128, 256, 512, 1024, 4096, 16384});
        visit("warps_per_slice", self.warps_per_slice, OneOf{0, 1, 2, 4, 8});
        visit("max_padding", self.max_padding, Range{1.0, 1e6});
    }

    static std::vector<Options> candidates();
};

template <class T>
struct PackedSellPlan {
    PackedSellTuning tuning;
    Cost cost;
    Slices slices;
    std::vector<T> dictionary;  // empty if no slot uses it
    Array<std::uint64_t> heads;
    std::int64_t granules = 0;  // granules of the stream
    packed::ModeCounts counts;

    template <class Visit>
    void each_count(const Visit& visit) const {
        counts.each_count(visit);
    }
};

template <class T>
struct PackedSell {
    static constexpr const char* kName = "packed_sell";
    static constexpr Traits kTraits{
        .multiplies_panels = false, .builds_on_gpu = true, .plan_us = 1500, .needs_few_values = true};
    using value_type = T;
    using Tuning = PackedSellTuning;
    using Plan = PackedSellPlan<T>;

    index_t rows = 0, cols = 0, nnz = 0;
    index_t slices = 0;
    Array<std::uint64_t> heads;  // head of the first group of each slice, two words each
    Array<packed::Byte> stream;
    Array<T> dictionary;         // at most 256 values
    Array<index_t> permutation;  // length rows: row of y for a lane of a slice; empty if sigma is 1
    Tuning tuning;

    template <class Self, class Visit>
    static void each_array(Self& self, Visit&& visit) {
        visit("heads", self.heads);
        visit("stream", self.stream);
        visit("dictionary", self.dictionary);
        visit("permutation", self.permutation);
    }

    static Plan plan(const CsrMatrix<T>& csr, const Tuning& tuning, const Target& target);
    static PackedSell from_csr(const CsrMatrix<T>& csr, const Plan& plan);
    CsrMatrix<T> to_csr() const;
    std::size_t workspace_bytes() const { return 0; }
    index_t row_at(index_t i) const { return permutation.size() ? permutation[i] : i; }

    void spmv(const Product<T>& product) const;
    void spmv_cuda(const Product<T>& product, Stream stream) const;
};

}  // namespace spmvgpu
