// Operations on a matrix in CSR, and its transpose, as passes on any device; see passes.hpp.
#pragma once

#include <algorithm>

#include "core/csr_matrix.hpp"
#include "core/passes/passes.hpp"

namespace spmvgpu {

template <class Passes>
index_t longest_row(Passes& passes, index_t rows, const index_t* row_offsets) {
    return largest<index_t>(passes, rows,
                            [=] SPMVGPU_BODY(std::int64_t row) { return row_offsets[row + 1] - row_offsets[row]; });
}

// Where rows of these lengths begin, and where the last one ends.
template <class Passes, class Length>
Array<index_t> sum_row_lengths(Passes& passes, index_t rows, Length length, std::int64_t work = 1) {
    Array<index_t> row_offsets = passes.template make<index_t>(rows + std::size_t(1));
    index_t* const offsets = row_offsets.data();
    passes.each(
        rows, [=] SPMVGPU_BODY(std::int64_t row) { offsets[row] = length(static_cast<index_t>(row)); }, work);
    passes.scan(offsets, rows);
    return row_offsets;
}

// The value of an entry of a canonical matrix; zero where none is stored.
template <class T>
constexpr T entry(const index_t* row_offsets, const index_t* col_indices, const T* values, std::int64_t row,
                  std::int64_t col) {
    const std::int64_t end = row_offsets[row + 1];
    const std::int64_t k = first_not_below(col_indices, row_offsets[row], end, col);
    return k < end && col_indices[k] == col ? values[k] : T(0);
}

// `numbers` by ascending key, in scratch memory; equal keys keep their order. Number n has keys[n], in 0..largest.
template <class Passes>
Array<index_t> sort_by_key(Passes& passes, const Array<index_t>& numbers, const Array<index_t>& keys, index_t largest) {
    const auto n = static_cast<index_t>(numbers.size());
    const index_t *const number = numbers.data(), *const key = keys.data();
    const Array<index_t> places =
        passes.order_by_key(n, n > 0 ? n : 1, largest, [=] SPMVGPU_BODY(index_t i) { return key[number[i]]; });
    Array<index_t> sorted = passes.template scratch<index_t>(n);
    const index_t* const place = places.data();
    index_t* const to = sorted.data();
    passes.each(n, [=] SPMVGPU_BODY(std::int64_t i) { to[i] = number[place[i]]; });
    return sorted;
}

// 0 to n - 1, in scratch memory.
template <class Passes>
Array<index_t> count_up(Passes& passes, index_t n) {
    Array<index_t> numbers = passes.template scratch<index_t>(n);
    index_t* const to = numbers.data();
    passes.each(n, [=] SPMVGPU_BODY(std::int64_t i) { to[i] = static_cast<index_t>(i); });
    return numbers;
}

// Every step-th of n numbers, from the first on, in scratch memory.
template <class Passes, class Number>
Array<Number> take_every(Passes& passes, const Number* from, std::int64_t n, std::int64_t step) {
    const std::int64_t count = (n + step - 1) / step;
    Array<Number> sample = passes.template scratch<Number>(count);
    Number* const to = sample.data();
    passes.each(count, [=] SPMVGPU_BODY(std::int64_t i) { to[i] = from[i * step]; });
    return sample;
}

// Counts of violations of the canonical form.
struct Disorder {
    std::int64_t broken = 0;    // offsets that decrease or do not go from 0 to nnz, and columns out of range
    std::int64_t descents = 0;  // columns no larger than the one before, less the ones that begin a row

    constexpr Disorder& operator+=(const Disorder& other) {
        broken += other.broken;
        descents += other.descents;
        return *this;
    }
};

// Returns true if arrays of these lengths, with any contents, are a canonical matrix: offsets from 0 to nnz that never
// decrease, and in every row columns that increase and lie in 0..cols - 1. One pass counts all violations, so a GPU is
// waited for once.
template <class Passes>
bool is_canonical(Passes& passes, index_t rows, index_t cols, index_t nnz, const index_t* row_offsets,
                  const index_t* col_indices) {
    constexpr std::int64_t kNanoseconds = 2;
    const auto found = passes.template reduce<Disorder>(
        std::max(std::int64_t(rows) + 1, std::int64_t(nnz)),
        [=] SPMVGPU_BODY(std::int64_t i) {
            Disorder disorder;
            const auto descends = [=](std::int64_t k) { return col_indices[k] <= col_indices[k - 1]; };
            if (i <= rows) {
                const index_t begin = row_offsets[i];
                disorder.broken += (i == 0 && begin != 0) + (i == rows && begin != nnz);
                if (i < rows) {
                    const index_t end = row_offsets[i + 1];
                    disorder.broken += end < begin;
                    disorder.descents -= 0 < begin && begin < end && begin < nnz && descends(begin);
                }
            }
            if (i < nnz) {
                disorder.broken += col_indices[i] < 0 || col_indices[i] >= cols;
                disorder.descents += i > 0 && descends(i);
            }
            return disorder;
        },
        kNanoseconds);
    return found.broken == 0 && found.descents == 0;
}

// Which columns a canonical matrix has entries in, and on which diagonals, column minus row, they lie.
struct ColumnReach {
    std::int64_t first = kMost, last = -1;
    std::int64_t low = kMost, high = -kMost;

    constexpr ColumnReach& operator+=(const ColumnReach& other) {
        first = first < other.first ? first : other.first;
        last = last > other.last ? last : other.last;
        low = low < other.low ? low : other.low;
        high = high > other.high ? high : other.high;
        return *this;
    }

private:
    static constexpr std::int64_t kMost = INT64_MAX;
};

template <class Passes>
ColumnReach column_reach(Passes& passes, index_t rows, const index_t* row_offsets, const index_t* col_indices) {
    constexpr std::int64_t kNanoseconds = 4;
    return passes.template reduce<ColumnReach>(
        rows,
        [=] SPMVGPU_BODY(std::int64_t row) {
            const index_t begin = row_offsets[row], end = row_offsets[row + 1];
            ColumnReach reach;
            if (begin == end) return reach;
            reach.first = col_indices[begin];
            reach.last = col_indices[end - 1];
            reach.low = reach.first - row;
            reach.high = reach.last - row;
            return reach;
        },
        kNanoseconds);
}

// The transpose of a canonical matrix, canonical too: its entries by their columns, those in one column by their rows.
template <class T, class Passes>
CsrMatrix<T> transpose_by_order(Passes& passes, const CsrMatrix<T>& csr) {
    const index_t rows = csr.rows, cols = csr.cols, nnz = csr.nnz;
    const index_t *const row_offsets = csr.row_offsets.data(), *const col_indices = csr.col_indices.data();
    const T* const values = csr.values.data();
    const Array<index_t> order = passes.order_by_key(nnz, nnz > 0 ? nnz : 1, cols > 0 ? cols - 1 : 0,
                                                     [=] SPMVGPU_BODY(index_t k) { return col_indices[k]; });
    const index_t* const from = order.data();
    passes.finish();  // the result may lie where the keys were
    CsrMatrix<T> result{cols,
                        rows,
                        nnz,
                        passes.template make<index_t>(cols + std::size_t(1)),
                        passes.template make<index_t>(nnz),
                        passes.template make<T>(nnz)};
    index_t *const new_offsets = result.row_offsets.data(), *const new_cols = result.col_indices.data();
    T* const new_values = result.values.data();
    constexpr index_t kIsEmpty = -1;
    passes.fill(new_offsets, cols + std::int64_t(1), kIsEmpty);
    passes.each(nnz, [=] SPMVGPU_BODY(std::int64_t i) {
        const index_t col = col_indices[from[i]];
        if (i == 0 || col_indices[from[i - 1]] != col) new_offsets[col] = static_cast<index_t>(i);
    });
    // An empty column begins where the next one does. Each looks for itself, because there may be millions of them in a
    // row.
    passes.each(cols + std::int64_t(1), [=] SPMVGPU_BODY(std::int64_t col) {
        if (new_offsets[col] != kIsEmpty) return;
        index_t low = 0, high = nnz;
        while (low < high) {
            const index_t middle = low + (high - low) / 2;
            if (col_indices[from[middle]] < col) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        new_offsets[col] = low;
    });
    constexpr std::int64_t kNanosecondsPerEntry = 30;
    passes.each(
        nnz,
        [=] SPMVGPU_BODY(std::int64_t i) {
            const index_t k = from[i];
            new_cols[i] = row_of_entry(row_offsets, rows, k);
            new_values[i] = values[k];
        },
        kNanosecondsPerEntry);
    return result;
}

// The entries of the canonical matrix whose row row_order[i] is row i of a canonical one, columns likewise; null: the
// order is the same. Entry k of this one is entry map[k] of that. Its values are not read.
template <class T, class Passes>
Array<index_t> entries_before(Passes& passes, const CsrMatrix<T>& csr, const index_t* row_order,
                              const index_t* col_order) {
    const index_t rows = csr.rows, cols = csr.cols, nnz = csr.nnz;
    const index_t *const row_offsets = csr.row_offsets.data(), *const col_indices = csr.col_indices.data();
    Array<index_t> keys = passes.template scratch<index_t>(nnz);
    index_t* const key = keys.data();
    passes.each(nnz, [=] SPMVGPU_BODY(std::int64_t k) {
        key[k] = col_order == nullptr ? col_indices[k] : col_order[col_indices[k]];
    });
    Array<index_t> entries = sort_by_key(passes, count_up(passes, nnz), keys, cols > 0 ? cols - 1 : 0);
    passes.each_entry(rows, row_offsets, nnz, [=] SPMVGPU_BODY(index_t row, index_t k) {
        key[k] = row_order == nullptr ? row : row_order[row];
    });
    entries = sort_by_key(passes, entries, keys, rows > 0 ? rows - 1 : 0);
    Array<index_t> map = passes.template make<index_t>(nnz);
    const index_t* const entry = entries.data();
    index_t* const to = map.data();
    passes.each(nnz, [=] SPMVGPU_BODY(std::int64_t i) { to[entry[i]] = static_cast<index_t>(i); });
    return map;
}

}  // namespace spmvgpu
