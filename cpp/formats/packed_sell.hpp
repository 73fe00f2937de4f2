// packed_sell: slices of 32 rows, as in sell, whose column indices and values are stored in as few bytes as lose
// nothing. Every slot, a column of a slice with an entry of each row, is described by one word: how its columns follow
// from a base, and what is stored of its values. A product multiplies exactly the stored values, in the order of the
// columns.
//
// clang-format off
//     rows (slices of 3)                 slots of slice 0                      word (beside the position)
//     [ 2 7 . . . ]     column - row     0: 2  2  2    every lane              base 0, shared offset, constant
//     [ . 2 8 . . ]                      1: 7  8  5    every lane              base 1, shared offset, full
//     [ . . 2 5 . ]
//     [ 1 . . . 9 ]                      slots of slice 1
//     [ . . 3 . . ]                         1  3  .    lanes 0 and 1           base -3, 8 bits,        full
//                                           9  .  .    lane 0                  base 1,  shared offset, constant
//
//     words  | group | slot | slot |        | group | slot | slot |            length slice_offsets[slices]
//               |
//     stream    '-> | elements of the slots | masks of ragged slots | constants |     bytes, in steps of 16
// clang-format on
//
// The column of a lane is base + row + offset, the offset being none or an unsigned number of 8, 16 or 32 bits. Values
// are full, half as wide, 16-bit integers times the scale of the matrix (a power of two), codes of its dictionary, or
// one for all lanes; see ValueMode in packed_sell_modes.hpp. A value may be stored in fewer bits only if the very bits
// come back. Elements are those of the lanes that have an entry, side by side; a lane that has none neither reads x nor
// multiplies. A slot for each diagonal that a slice touches takes the place of a slot for each entry of the longest row
// where that makes few more slots, for then columns need no bits at all.
//
// A group is a word for where its elements begin and up to 31 slots, so that the lanes of a warp read it at once. With
// sigma > 1 rows are sorted by length within windows of sigma rows, as in sell. Values that are all different, with
// columns anywhere, take as many bytes as in sell and more work to read: do not use it there. Nor where row lengths
// differ wildly within a window: lanes without an entry idle, and more than max_padding of them are refused.
//
// After: Monakov et al. 2010 (slices), Willcock and Lumsdaine 2006 and Kourtis et al. 2008 (compressed indices and
// values).
#pragma once

#include <vector>

#include "core/host_vector.hpp"
#include "formats/format.hpp"
#include "formats/packed_sell_modes.hpp"
#include "formats/slices.hpp"

namespace spmvgpu {

struct PackedSellTuning {
    int sigma = 0;            // window of the sort in rows; 1 keeps the order; 0 sorts only where many lanes would idle
    int warps_per_slice = 0;  // CUDA: warps that share the slots of a slice; 0 chooses from the size of the matrix
    double max_padding = 4.0;  // refuse to give more lanes than this to a non-zero

    template <class Self, class Visit>
    static void each_param(Self& self, Visit&& visit) {
        visit("sigma", self.sigma, OneOf{0, 1, 32, 128, 256, 512, 1024, 4096, 16384});
        visit("warps_per_slice", self.warps_per_slice, OneOf{0, 1, 2, 4, 8, 16, 32});
        visit("max_padding", self.max_padding, Range{1.0, 1e6});
    }

    static std::vector<Options> candidates();
};

template <class T>
struct PackedSellPlan {
    PackedSellTuning tuning;
    Cost cost;
    Slices slices;
    std::vector<T> dictionary;              // empty if no slot uses it
    Real<T> scale = 0;                      // of 16-bit integers; 0 if no slot uses it
    HostVector<index_t> slice_offsets;      // in words
    HostVector<std::int64_t> slice_starts;  // in granules of the stream
};

template <class T>
struct PackedSell {
    static constexpr const char* kName = "packed_sell";
    static constexpr Traits kTraits{.multiplies_panels = false};
    using value_type = T;
    using Tuning = PackedSellTuning;
    using Plan = PackedSellPlan<T>;

    index_t rows = 0, cols = 0, nnz = 0;
    index_t slices = 0;
    Array<index_t> slice_offsets;  // length slices + 1
    Array<std::uint64_t> words;    // length slice_offsets[slices]
    Array<packed::Byte> stream;
    Array<T> dictionary;         // at most 256 values
    Array<index_t> permutation;  // length rows: row of y that a lane of a slice belongs to; empty where sigma is 1
    Real<T> scale = 0;
    Tuning tuning;

    template <class Self, class Visit>
    static void each_array(Self& self, Visit&& visit) {
        visit("slice_offsets", self.slice_offsets);
        visit("words", self.words);
        visit("stream", self.stream);
        visit("dictionary", self.dictionary);
        visit("permutation", self.permutation);
    }

    static Plan plan(const CsrMatrix<T>& csr, const Tuning& tuning, const Target& target);
    static PackedSell from_csr(const CsrMatrix<T>& csr, const Plan& plan);
    CsrMatrix<T> to_csr() const;
    std::size_t workspace_bytes() const { return 0; }
    // Of lane i in the slices' order.
    index_t row_at(index_t i) const { return permutation.size() ? permutation[i] : i; }

    void spmv(const Product<T>& product) const;                      // on the CPU
    void spmv_cuda(const Product<T>& product, Stream stream) const;  // cuda/packed_sell.cu
};

}  // namespace spmvgpu
