// Matrices in CSR that are made of others, on the device where those lie, for gpu/run.hpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/csr_matrix.hpp"
#include "core/passes/csr_passes.hpp"
#include "core/passes/host_passes.hpp"
#include "core/passes/passes.hpp"
#include "core/wide.hpp"

namespace spmvgpu {

// The rows of matrices on one device that have as many columns, one matrix after the other.
template <class T>
struct StackedRows {
    using Result = CsrMatrix<T>;
    const std::vector<CsrMatrix<T>>& parts;  // one at least; with fewer entries than an index_t counts

    template <class Passes>
    Result operator()(Passes& passes) const {
        CsrMatrix<T> stacked{0, parts[0].cols, 0, {}, {}, {}};
        for (const CsrMatrix<T>& part : parts) stacked.rows += part.rows, stacked.nnz += part.nnz;
        stacked.row_offsets = passes.template make<index_t>(stacked.rows + std::size_t(1));
        stacked.col_indices = passes.template make<index_t>(stacked.nnz);
        stacked.values = passes.template make<T>(stacked.nnz);
        index_t row = 0, first = 0;
        for (const CsrMatrix<T>& part : parts) {
            const index_t *const offsets = part.row_offsets.data(), *const cols = part.col_indices.data();
            const T* const values = part.values.data();
            const index_t before = first;
            index_t *const new_offsets = stacked.row_offsets.data() + row, *const new_cols =
                                                                               stacked.col_indices.data() + first;
            T* const new_values = stacked.values.data() + first;
            passes.each(part.rows + std::int64_t(1),
                        [=] SPMVGPU_BODY(std::int64_t i) { new_offsets[i] = before + offsets[i]; });
            passes.each(part.nnz, [=] SPMVGPU_BODY(std::int64_t k) {
                new_cols[k] = cols[k];
                new_values[k] = values[k];
            });
            row += part.rows, first += part.nnz;
        }
        return stacked;
    }
};

// Copies some entries of all rows. The function object `new_column` gives the new column of the k-th entry, or -1 to
// leave it out. It must not be a lambda: nvcc refuses a function that has lambdas for the GPU and types of other
// lambdas.
template <class T, class Passes, class NewColumn>
CsrMatrix<T> some_entries(Passes& passes, const CsrMatrix<T>& csr, index_t cols, NewColumn new_column) {
    const index_t* const offsets = csr.row_offsets.data();
    const T* const values = csr.values.data();
    const index_t rows = csr.rows;
    const std::int64_t nanoseconds = 1 + csr.nnz / std::max(csr.rows, 1);
    CsrMatrix<T> made{rows, cols, 0, passes.template make<index_t>(rows + std::size_t(1)), {}, {}};
    index_t* const new_offsets = made.row_offsets.data();
    passes.each(
        rows,
        [=] SPMVGPU_BODY(std::int64_t row) {
            index_t kept = 0;
            for (index_t k = offsets[row]; k < offsets[row + 1]; ++k) kept += new_column(k) >= 0;
            new_offsets[row] = kept;
        },
        nanoseconds);
    made.nnz = passes.scan(new_offsets, rows);
    made.col_indices = passes.template make<index_t>(made.nnz);
    made.values = passes.template make<T>(made.nnz);
    index_t* const new_cols = made.col_indices.data();
    T* const new_values = made.values.data();
    // A warp shares neighbouring rows, so that neighbours are written at once.
    constexpr index_t kEntriesOfWarp = 256, kMostRowsOfWarp = 32;
    const index_t of_warp = std::clamp(kEntriesOfWarp / std::max(1, csr.nnz / std::max(rows, 1)), 1, kMostRowsOfWarp);
    passes.each_in_step((std::int64_t(rows) + of_warp - 1) / of_warp,
                        [=] SPMVGPU_BODY(const auto& lanes, std::int64_t i) {
                            const auto row = static_cast<index_t>(i * of_warp);
                            const index_t end = rows - row < of_warp ? rows : row + of_warp;
                            const index_t first = offsets[row], to = new_offsets[row];
                            if (to == new_offsets[end]) return;
                            const auto is_kept = [&](index_t k) { return index_t(new_column(first + k) >= 0); };
                            lanes.add_up(offsets[end] - first, is_kept, [&](index_t k, index_t before) {
                                const index_t col = new_column(first + k);
                                if (col < 0) return;
                                new_cols[to + before] = col;
                                new_values[to + before] = values[first + k];
                            });
                        },
                        nanoseconds * of_warp);
    return made;
}

// Some rows of a matrix in the order given, entry by entry, because some may be very long.
template <class T>
struct ListedRows {
    using Result = CsrMatrix<T>;
    const CsrMatrix<T>& csr;
    const Array<index_t>& rows;

    template <class Passes>
    Result operator()(Passes& passes) const {
        const index_t *const offsets = csr.row_offsets.data(), *const cols = csr.col_indices.data();
        const index_t* const listed = rows.data();
        const T* const values = csr.values.data();
        const auto count = static_cast<index_t>(rows.size());
        CsrMatrix<T> made{count, csr.cols, 0, passes.template make<index_t>(count + std::size_t(1)), {}, {}};
        index_t* const new_offsets = made.row_offsets.data();
        passes.each(count,
                    [=] SPMVGPU_BODY(std::int64_t i) { new_offsets[i] = offsets[listed[i] + 1] - offsets[listed[i]]; });
        made.nnz = passes.scan(new_offsets, count);
        made.col_indices = passes.template make<index_t>(made.nnz);
        made.values = passes.template make<T>(made.nnz);
        index_t* const new_cols = made.col_indices.data();
        T* const new_values = made.values.data();
        passes.each_entry(count, new_offsets, made.nnz, [=] SPMVGPU_BODY(index_t row, index_t to) {
            const index_t k = offsets[listed[row]] + (to - new_offsets[row]);
            new_cols[to] = cols[k];
            new_values[to] = values[k];
        });
        return made;
    }
};

// A matrix whose columns are moved to the right by `shift`, to where there are `cols`. All else is shared, or copied
// from memory that belongs to the caller.
template <class T, class Passes>
CsrMatrix<T> moved_columns(Passes& passes, const CsrMatrix<T>& csr, index_t shift, index_t cols) {
    const auto own = [](const auto& array) { return array.to(array.device()); };
    CsrMatrix<T> moved{csr.rows, cols, csr.nnz, own(csr.row_offsets), {}, own(csr.values)};
    if (shift == 0) {
        moved.col_indices = own(csr.col_indices);
        return moved;
    }
    moved.col_indices = passes.template make<index_t>(csr.nnz);
    const index_t* const from = csr.col_indices.data();
    index_t* const to = moved.col_indices.data();
    passes.each(csr.nnz, [=] SPMVGPU_BODY(std::int64_t k) { to[k] = from[k] + shift; });
    return moved;
}

// The entries of a matrix in the columns from `begin` to before `end`, which become the columns from 0 on; or the
// entries outside of these columns, which keep their numbers. Rows need not be sorted. The matrix need not have all
// these columns.
template <class T>
struct SelectedEntries {
    using Result = CsrMatrix<T>;
    const CsrMatrix<T>& csr;
    index_t begin, end;
    bool are_outside = false;

    struct InWindow {
        const index_t* cols;
        index_t begin, end;
        bool are_outside;

        SPMVGPU_IN_BODY index_t operator()(index_t k) const {
            const bool is_inside = begin <= cols[k] && cols[k] < end;
            return is_inside == are_outside ? -1 : cols[k] - (are_outside ? 0 : begin);
        }
    };

    template <class Passes>
    Result operator()(Passes& passes) const {
        if (!are_outside && begin <= 0 && end >= csr.cols) return moved_columns(passes, csr, -begin, end - begin);
        return some_entries(passes, csr, are_outside ? csr.cols : end - begin,
                            InWindow{csr.col_indices.data(), begin, end, are_outside});
    }
};

// The entries that are not zero.
template <class T>
struct NonzeroEntries {
    using Result = CsrMatrix<T>;
    const CsrMatrix<T>& csr;

    struct ColumnOrNone {
        const index_t* cols;
        const T* values;

        SPMVGPU_IN_BODY index_t operator()(index_t k) const { return values[k] == T(0) ? -1 : cols[k]; }
    };

    template <class Passes>
    Result operator()(Passes& passes) const {
        return some_entries(passes, csr, csr.cols, ColumnOrNone{csr.col_indices.data(), csr.values.data()});
    }
};

// The sum of two canonical matrices on one device with as many rows. Columns of the left one are moved to the right by
// `shift`, so that it fits where the other one's are.
template <class T>
struct Sum {
    using Result = CsrMatrix<T>;
    const CsrMatrix<T>&left, &right;
    index_t shift = 0;

    // The first entry of a row whose column is not below `col`, or the end of the row: often at the place in the row
    // where the other matrix has it.
    static SPMVGPU_IN_BODY index_t place_in(const CsrPattern& csr, index_t row, index_t col, index_t other_place) {
        const index_t begin = csr.row_offsets[row], end = csr.row_offsets[row + 1];
        if (other_place < end - begin && csr.col_indices[begin + other_place] == col) return begin + other_place;
        return static_cast<index_t>(first_not_below(csr.col_indices, begin, end, col));
    }
    static SPMVGPU_IN_BODY bool is_in(const CsrPattern& csr, index_t row, index_t place, index_t col) {
        return place < csr.row_offsets[row + 1] && csr.col_indices[place] == col;
    }

    // Calls take(col, value) for every entry of a row of the sum, in order.
    template <class Take>
    void merge_row(std::int64_t row, const Take& take) const {
        index_t i = left.row_offsets[row], j = right.row_offsets[row];
        const index_t i_end = left.row_offsets[row + 1], j_end = right.row_offsets[row + 1];
        while (i < i_end || j < j_end) {
            const index_t at_i = i < i_end ? left.col_indices[i] + shift : 0;
            const bool is_left = i < i_end && (j == j_end || at_i <= right.col_indices[j]);
            const bool is_right = j < j_end && (i == i_end || right.col_indices[j] <= at_i);
            if (is_left && is_right) {
                take(at_i, left.values[i] + right.values[j]);
            } else if (is_left) {
                take(at_i, left.values[i]);
            } else {
                take(right.col_indices[j], right.values[j]);
            }
            i += is_left;
            j += is_right;
        }
    }

    template <class Passes>
    Result operator()(Passes& passes) const {
        if (right.nnz == 0) return moved_columns(passes, left, shift, right.cols);
        if (left.nnz == 0) return moved_columns(passes, right, 0, right.cols);
        return add(passes);
    }

    // A core merges row after row.
    Result add(HostPasses& passes) const {
        const std::int64_t nanoseconds = 2 + (std::int64_t(left.nnz) + right.nnz) / std::max(left.rows, 1);
        Result sum{left.rows, right.cols, 0, passes.make<index_t>(left.rows + std::size_t(1)), {}, {}};
        passes.each(
            left.rows,
            [&](std::int64_t row) {
                index_t count = 0;
                merge_row(row, [&](index_t, T) { ++count; });
                sum.row_offsets[row] = count;
            },
            nanoseconds);
        sum.nnz = passes.scan(sum.row_offsets.data(), sum.rows);
        sum.col_indices = passes.make<index_t>(sum.nnz);
        sum.values = passes.make<T>(sum.nnz);
        passes.each(
            left.rows,
            [&](std::int64_t row) {
                index_t to = sum.row_offsets[row];
                merge_row(row, [&](index_t col, T value) {
                    sum.col_indices[to] = col;
                    sum.values[to++] = value;
                });
            },
            nanoseconds);
        return sum;
    }

    // On a GPU, an entry goes behind all entries of both matrices that come before it, of which some are common to
    // both. Passes go entry by entry, because some rows may be very long, and most rows of the right matrix empty.
    template <class Passes>
    Result add(Passes& passes) const {
        const CsrPattern a = left.pattern(), b = right.pattern();
        const T *const a_values = left.values.data(), *const b_values = right.values.data();
        const index_t moved = shift;
        Array<index_t> common_before = passes.template scratch<index_t>(b.nnz + std::size_t(1));
        index_t* const common = common_before.data();  // common entries before each entry of the right matrix
        passes.each_entry(b.rows, b.row_offsets, b.nnz, [=] SPMVGPU_BODY(index_t row, index_t k) {
            const index_t col = b.col_indices[k] - moved;
            common[k] = is_in(a, row, place_in(a, row, col, k - b.row_offsets[row]), col) ? 1 : 0;
        });
        const index_t all = passes.scan(common, b.nnz);
        if (all == a.nnz && all == b.nnz) {  // the patterns are the same
            CsrMatrix<T> sum = moved_columns(passes, right, 0, b.cols);
            sum.values = passes.template make<T>(all);
            T* const values = sum.values.data();
            passes.each(all, [=] SPMVGPU_BODY(std::int64_t k) { values[k] = a_values[k] + b_values[k]; });
            return sum;
        }
        CsrMatrix<T> sum{a.rows, b.cols, a.nnz + (b.nnz - all), {}, {}, {}};
        sum.row_offsets = passes.template make<index_t>(a.rows + std::size_t(1));
        sum.col_indices = passes.template make<index_t>(sum.nnz);
        sum.values = passes.template make<T>(sum.nnz);
        index_t *const offsets = sum.row_offsets.data(), *const cols = sum.col_indices.data();
        T* const values = sum.values.data();
        passes.each(a.rows + std::int64_t(1), [=] SPMVGPU_BODY(std::int64_t row) {
            offsets[row] = a.row_offsets[row] + (b.row_offsets[row] - common[b.row_offsets[row]]);
        });
        passes.each_entry(a.rows, a.row_offsets, a.nnz, [=] SPMVGPU_BODY(index_t row, index_t k) {
            const index_t col = a.col_indices[k] + moved, other = place_in(b, row, col, k - a.row_offsets[row]);
            const index_t to = k + (other - common[other]);
            cols[to] = col;
            values[to] = is_in(b, row, other, col) ? a_values[k] + b_values[other] : a_values[k];
        });
        passes.each_entry(b.rows, b.row_offsets, b.nnz, [=] SPMVGPU_BODY(index_t row, index_t k) {
            if (common[k] != common[k + 1]) return;
            const index_t col = b.col_indices[k],
                          to = (k - common[k]) + place_in(a, row, col - moved, k - b.row_offsets[row]);
            cols[to] = col;
            values[to] = b_values[k];
        });
        return sum;
    }
};

// The values of a matrix with each row times a factor, and all times another one.
template <class T>
struct ScaledRows {
    using Result = Array<T>;
    const CsrMatrix<T>& csr;
    const Array<double>& factors;
    double of_all;

    template <class Passes>
    Result operator()(Passes& passes) const {
        Array<T> scaled = passes.template make<T>(csr.nnz);
        const T* const values = csr.values.data();
        const double *const factor = factors.data(), also = of_all;
        T* const to = scaled.data();
        passes.each_entry(csr.rows, csr.row_offsets.data(), csr.nnz, [=] SPMVGPU_BODY(index_t row, index_t k) {
            to[k] = T(also * factor[row] * Wide<T>(values[k]));
        });
        return scaled;
    }
};

// The complex conjugates of numbers.
template <class T>
struct Conjugates {
    using Result = Array<T>;
    const Array<T>& values;

    template <class Passes>
    Result operator()(Passes& passes) const {
        Array<T> made = passes.template make<T>(values.size());
        const T* const from = values.data();
        T* const to = made.data();
        passes.each(static_cast<std::int64_t>(values.size()),
                    [=] SPMVGPU_BODY(std::int64_t k) { to[k] = T(conjugate(Wide<T>(from[k]))); });
        return made;
    }
};

// The inverses of the entries (i, i + shift), of which there is one in every row; zero where one is not positive.
template <class T>
struct PositiveInverses {
    using Result = Array<T>;
    const CsrMatrix<T>& csr;
    index_t shift;

    template <class Passes>
    Result operator()(Passes& passes) const {
        Array<T> made = passes.template make<T>(csr.rows);
        const index_t *const offsets = csr.row_offsets.data(), *const cols = csr.col_indices.data();
        const T* const values = csr.values.data();
        const index_t right = shift;
        T* const to = made.data();
        passes.each(csr.rows, [=] SPMVGPU_BODY(std::int64_t i) {
            const Real<T> own = real_part(entry(offsets, cols, values, i, i + right));
            to[i] = own > 0 ? T(1 / own) : T(0);
        });
        return made;
    }
};

// The rows that have entries, ascending.
struct RowsWithEntries {
    using Result = Array<index_t>;
    CsrPattern csr;

    template <class Passes>
    Result operator()(Passes& passes) const {
        const index_t* const offsets = csr.row_offsets;
        return passes.keep(
            select(passes, csr.rows, [=] SPMVGPU_BODY(std::int64_t row) { return offsets[row] != offsets[row + 1]; }));
    }
};

// The columns that have entries, ascending. Needs a bit for each column while it counts.
struct ColumnsWithEntries {
    using Result = Array<index_t>;
    CsrPattern csr;

    template <class Passes>
    Result operator()(Passes& passes) const {
        Array<Word> used = passes.template scratch<Word>(words_for(csr.cols));
        Word* const words = used.data();
        const index_t* const cols = csr.col_indices;
        passes.fill(words, words_for(csr.cols), Word(0));
        passes.each(csr.nnz, [=] SPMVGPU_BODY(std::int64_t k) { add_to_set(words, cols[k]); });
        return list_set(passes, words, csr.cols, 0);
    }
};

// The columns of an ascending list, which are numbered by their places there.
template <class T>
struct ListedColumns {
    using Result = CsrMatrix<T>;
    const CsrMatrix<T>& csr;
    const Array<index_t>& listed;

    struct Place {
        const index_t* places;

        SPMVGPU_IN_BODY index_t operator()(index_t k) const { return places[k]; }
    };

    template <class Passes>
    Result operator()(Passes& passes) const {
        const index_t *const cols = csr.col_indices.data(), *const list = listed.data();
        const auto count = static_cast<index_t>(listed.size());
        Array<index_t> place_of_entries = passes.template scratch<index_t>(csr.nnz);
        index_t* const place_of = place_of_entries.data();
        passes.each(csr.nnz, [=] SPMVGPU_BODY(std::int64_t k) {
            const auto place = static_cast<index_t>(first_not_below(list, 0, count, cols[k]));
            place_of[k] = place < count && list[place] == cols[k] ? place : -1;
        });
        return some_entries(passes, csr, count, Place{place_of});
    }
};

// The row offsets of a matrix whose i-th row becomes the i-th one of an ascending list, and whose other rows are empty.
struct PlacedRows {
    using Result = Array<index_t>;
    const Array<index_t>& row_offsets;
    const Array<index_t>& listed;
    index_t rows;

    template <class Passes>
    Result operator()(Passes& passes) const {
        Array<index_t> placed = passes.template make<index_t>(rows + std::size_t(1));
        const index_t *const from = row_offsets.data(), *const list = listed.data();
        const auto count = static_cast<index_t>(listed.size());
        index_t* const to = placed.data();
        passes.each(rows + std::int64_t(1), [=] SPMVGPU_BODY(std::int64_t row) {
            to[row] = from[first_not_below(list, 0, count, static_cast<index_t>(row))];
        });
        return placed;
    }
};

}  // namespace spmvgpu
