// DIA, diagonals: every diagonal that holds an entry is stored in full, without column indices. Bell and Garland 2008,
// as in Yang et al. 2015, section 5.4.
//
// clang-format off
//     [ 1 7 . . ]      offsets  -2   0   1          length diagonals, ascending: column - row
//     [ . 2 8 . ]      values   - - 5 6     1 2 3 4     7 8 9 -
//     [ 5 . 3 9 ]               offset -2   offset 0    offset 1
//     [ . 6 . 4 ]
// clang-format on
//
// The slot of an entry lies at its row, so that neighbouring threads, a row each, read neighbouring slots and
// neighbouring entries of x. A diagonal is `pitch` slots: the rows, rounded up to a multiple of 32.
//
// Padding is a slot with the bit pattern `padding`, which no entry of the matrix has: +0.0, unless the matrix stores a
// +0.0, and then a NaN (or, if all NaN are stored as well, any other pattern) that does not occur in it. Fewer than
// 2^31 entries cannot use up 2^32 patterns, so there always is one. Stored zeros so survive to_csr() and multiply, 0 *
// inf included, and padding does neither, at no cost in memory: a mask would take a bit a slot.
//
// The smallest of all formats where the diagonals are full (grids, bands). Do not use it elsewhere: one entry off the
// diagonals costs a diagonal of slots, and beyond max_padding the matrix is refused.
#pragma once

#include <bit>
#include <type_traits>

#include "formats/format.hpp"
#include "formats/padding.hpp"

namespace spmvgpu {

struct DiaPlan {
    PaddedTuning tuning;
    Cost cost;
    Array<index_t> offsets;
};

template <class T>
struct Dia {
    static constexpr const char* kName = "dia";
    static constexpr Traits kTraits{.reads_whole_diagonals = true,
                                    .multiplies_columns = true,
                                    .builds_on_gpu = true,
                                    .new_values = NewValues::kPass};
    using value_type = T;
    using Tuning = PaddedTuning;
    using Plan = DiaPlan;
    using Bits = std::conditional_t<sizeof(Real<T>) == 4, std::uint32_t, std::uint64_t>;

    index_t rows = 0, cols = 0, nnz = 0;
    std::int64_t pitch = 0;
    Bits padding = 0;
    Array<index_t> offsets;  // length diagonals, ascending
    Array<T> values;         // length diagonals * pitch; slots outside the matrix are padding
    Tuning tuning;

    template <class Self, class Visit>
    static void each_array(Self& self, Visit&& visit) {
        visit("offsets", self.offsets);
        visit("values", self.values);
    }

    index_t diagonals() const { return static_cast<index_t>(offsets.size()); }
    index_t dot_parts() const { return parts_of_rows(rows); }

    // Bits that distinguish padding from values.
    static constexpr Bits bits(T value) { return std::bit_cast<Bits>(real_part(value)); }

    // The product of a stored value, or 0 if that is padding. Bits of real products are masked, because GCC makes a
    // branch of a choice between values, and vectorises that with AVX-512 only.
    static constexpr T unless_padding(T product, T stored, Bits padding) {
        const bool is_value = bits(stored) != padding;
        if constexpr (std::is_floating_point_v<T>) {
            return std::bit_cast<T>(static_cast<Bits>(bits(product) & (Bits(0) - Bits(is_value))));
        } else {
            return is_value ? product : T(0);
        }
    }

    static Plan plan(const CsrMatrix<T>& csr, const Tuning& tuning, const Target& target);
    static Dia from_csr(const CsrMatrix<T>& csr, const Plan& plan);
    CsrMatrix<T> to_csr() const;
    std::size_t workspace_bytes() const { return 0; }

    void spmv(const Product<T>& product) const;
    void multiply_panel(const Product<T>& product) const;
    void spmv_cuda(const Product<T>& product, Stream stream) const;
    void multiply_columns_cuda(const Product<T>& product, Stream stream) const;
};

}  // namespace spmvgpu
