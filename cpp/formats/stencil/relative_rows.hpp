// Comparison of rows of a matrix for the format stencil: by a key, which all but certainly differs where rows do, and
// then entry by entry with a known row that has the key.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "core/complex.hpp"
#include "core/csr_matrix.hpp"
#include "core/passes/bits.hpp"
#include "core/passes/passes.hpp"

namespace spmvgpu {

// The rows of a matrix, as distances of entries from the diagonal, and values.
template <class T>
struct RelativeRows {
    const index_t *row_offsets, *cols;
    const T* values;

    explicit RelativeRows(const CsrMatrix<T>& csr)
        : row_offsets(csr.row_offsets.data()), cols(csr.col_indices.data()), values(csr.values.data()) {}

    SPMVGPU_IN_BODY index_t length(index_t row) const { return row_offsets[row + 1] - row_offsets[row]; }

    template <class Lanes>
    SPMVGPU_IN_BODY std::uint64_t key(const Lanes& lanes, index_t row) const {
        const index_t begin = row_offsets[row];
        std::uint64_t own = 0;
        lanes.share(length(row),
                    [&](index_t i) { own += key_of(values[begin + i], std::int64_t(cols[begin + i]) - row); });
        return lanes.sum(own);
    }

    // The first entries are compared before the others, because they differ most often.
    template <class Lanes>
    SPMVGPU_IN_BODY bool are_same(const Lanes& lanes, index_t row, index_t other) const {
        const index_t n = length(row), begin = row_offsets[row], begin_other = row_offsets[other];
        const auto differ = [&](index_t i) {
            return cols[begin + i] - row != cols[begin_other + i] - other ||
                   !same_bits(values[begin + i], values[begin_other + i]);
        };
        if (n != length(other) || (n > 0 && differ(0))) return false;
        std::uint64_t differences = 0;
        lanes.share(n, [&](index_t i) { differences += differ(i); });
        return lanes.sum(differences) == 0;
    }

private:
    template <class Number>
    static SPMVGPU_IN_BODY std::uint64_t key_of(Number value, std::int64_t offset) {
        if constexpr (kIsComplex<Number>) {
            return key_of(value.real, 2 * offset) + key_of(value.imag, 2 * offset + 1);
        } else {
            using Bits = std::conditional_t<sizeof(Number) == 4, std::uint32_t, std::uint64_t>;
            return mixed(std::bit_cast<Bits>(value), offset) + 1;  // a zero on the diagonal counts as an entry
        }
    }
};

// A row of a known kind, and the number of that kind, in order of discovery.
struct KnownRow {
    std::uint64_t key;
    index_t row;
    std::uint16_t kind;

    constexpr bool operator<(std::uint64_t other) const { return key < other; }
};

// Known rows in the memory of a pass: ascending by their keys. Rows that are most frequent in the matrix are compared
// first, without a key.
struct KnownRows {
    static constexpr std::uint16_t kUnknown = 65535;
    static constexpr int kMostFrequent = 4;

    const KnownRow* all;
    std::int64_t count;
    KnownRow frequent[kMostFrequent];
    int frequent_count;

    // The kind of a row; kUnknown if none has its key. Sets the mark `differs` if one has, and is another row.
    template <class T, class Lanes>
    SPMVGPU_IN_BODY std::uint16_t kind_of(const Lanes& lanes, const RelativeRows<T>& rows, index_t row,
                                          Mark* differs) const {
        for (int i = 0; i < frequent_count; ++i) {
            if (rows.are_same(lanes, row, frequent[i].row)) return frequent[i].kind;
        }
        const std::uint64_t key = rows.key(lanes, row);
        const std::int64_t place = first_not_below(all, 0, count, key);
        if (place == count || all[place].key != key) return kUnknown;
        if (!rows.are_same(lanes, row, all[place].row)) set_mark(differs);
        return all[place].kind;
    }
};

// Adds the rows of a sample that have new keys, each a kind of its own, and marks in the table the ones that are most
// frequent in a first sample.
void learn_from(std::vector<KnownRow> sample, std::vector<KnownRow>& known, KnownRows& table);

}  // namespace spmvgpu
