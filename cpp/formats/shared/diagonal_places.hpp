// Positions of the entries of diagonals in CSR order, for new values. For every row and 32 diagonals they are the
// position of the first entry, and a mask of the diagonals on which the row has an entry.
#pragma once

#include <cstddef>

#include "core/passes/passes.hpp"

namespace spmvgpu {

// The diagonals come in the order in which a row has their entries.
struct DiagonalPlaces {
    static constexpr index_t kTogether = kWordBits;

    const index_t* words;  // for each 32 diagonals the positions of all rows, and then a mask for each
    std::int64_t pitch;    // rows, padded

    static constexpr std::size_t size(index_t diagonals, std::int64_t pitch) {
        return 2 * (diagonals / kTogether + (diagonals % kTogether != 0)) * pitch;
    }

    constexpr bool has(index_t d, std::int64_t row) const { return (from(d, row) & 1) != 0; }
    // The row's mask for the diagonals d, d + 1, ... to the end of their 32.
    constexpr Word from(index_t d, std::int64_t row) const { return bits(d, row) >> d % kTogether; }
    // The position of the row's first entry that is not before diagonal d.
    SPMVGPU_IN_BODY index_t position(index_t d, std::int64_t row) const {
        return of_group(d)[row] + count_bits(bits(d, row) & ((Word(1) << d % kTogether) - 1));
    }

private:
    constexpr const index_t* of_group(index_t d) const { return words + 2 * (d / kTogether) * pitch; }
    constexpr Word bits(index_t d, std::int64_t row) const { return static_cast<Word>(of_group(d)[pitch + row]); }
};

// Writes the words of a row whose first entry is at k; has(d) says whether it has one on diagonal d. Returns the begin
// of the following entries.
template <class Has>
constexpr index_t list_places(index_t* words, std::int64_t pitch, std::int64_t row, index_t diagonals, index_t k,
                              Has has) {
    for (index_t begin = 0; begin < diagonals; begin += DiagonalPlaces::kTogether) {
        words[row] = k;
        Word bits = 0;
        for (index_t i = 0; i < DiagonalPlaces::kTogether && begin + i < diagonals; ++i) {
            if (!has(begin + i)) continue;
            bits |= Word(1) << i;
            ++k;
        }
        words[pitch + row] = static_cast<index_t>(bits);
        words += 2 * pitch;
    }
    return k;
}

// A few neighbouring diagonals in one row, the work of a thread, so that several threads read the values of a row in
// short pieces. Threads of a warp have neighbouring rows, whose slots are neighbours.
struct DiagonalPiece {
    static constexpr index_t kDiagonals = 8;
    static_assert(DiagonalPlaces::kTogether % kDiagonals == 0);
    static constexpr int kLanes = 32;  // of which a pitch is a multiple

    std::int64_t row;
    index_t begin, end;

    static constexpr std::int64_t count(index_t diagonals, std::int64_t pitch) {
        return (diagonals / kDiagonals + (diagonals % kDiagonals != 0)) * pitch;
    }
    static constexpr DiagonalPiece at(std::int64_t i, index_t diagonals) {
        const std::int64_t of_lanes = count(diagonals, kLanes), in_lanes = i % of_lanes;
        const auto begin = static_cast<index_t>(in_lanes / kLanes) * kDiagonals;
        const index_t end = diagonals - begin < kDiagonals ? diagonals : begin + kDiagonals;
        return {i / of_lanes * kLanes + in_lanes % kLanes, begin, end};
    }
};

}  // namespace spmvgpu
