// Products of sparse matrices in CSR: first the pattern, then the values. New values need the second step alone. As
// passes on any device; see core/passes/passes.hpp.
//
// Every entry is the sum of its terms in the order of the row of the left matrix, in double precision, so it has the
// same bits on every device: one row of the right matrix after the other is added to a row of the product (Gustavson
// 1978). On a GPU a few lanes share each row, and a warp does if rows of the product are long.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/csr_matrix.hpp"
#include "core/host_vector.hpp"
#include "core/parallel.hpp"
#include "core/passes/csr_passes.hpp"
#include "core/passes/host_passes.hpp"
#include "core/wide.hpp"
#include "multigrid/distinct.hpp"

namespace spmvgpu::multigrid {

constexpr std::int64_t kNanosecondsPerTerm = 4;

struct RowsOfRow {
    index_t runs;
    const index_t *named, *row_offsets, *col_indices;

    constexpr Run run(index_t i) const { return {row_offsets[named[i]], row_offsets[named[i] + 1]}; }
    constexpr index_t number(const Run& /*run*/, index_t k) const { return col_indices[k]; }
};

struct TermsOfRows {
    CsrPattern left, right;

    SPMVGPU_IN_BODY RowsOfRow operator()(std::int64_t row) const {
        const index_t begin = left.row_offsets[row];
        return {left.row_offsets[row + 1] - begin, left.col_indices + begin, right.row_offsets, right.col_indices};
    }
};

template <class Passes>
PatternArrays product_pattern(Passes& passes, const CsrPattern& left, const CsrPattern& right) {
    const std::int64_t terms_of_row = left.rows > 0 && right.rows > 0 ? (1 + left.nnz / std::int64_t(left.rows)) *
                                                                            (1 + right.nnz / std::int64_t(right.rows))
                                                                      : 1;
    return distinct_pattern(passes, left.rows, right.cols, TermsOfRows{left, right},
                            kNanosecondsPerTerm * terms_of_row);
}

template <class Passes>
double count_terms(Passes& passes, const CsrPattern& left, const CsrPattern& right) {
    const index_t *const cols = left.col_indices, *const row_offsets = right.row_offsets;
    const auto terms = passes.template reduce<std::int64_t>(
        left.nnz,
        [=] SPMVGPU_BODY(std::int64_t k) { return std::int64_t(row_offsets[cols[k] + 1] - row_offsets[cols[k]]); }, 1);
    return static_cast<double>(terms);
}

// The position of a column in [begin, end) of the ascending columns of a row, or `end`.
constexpr index_t find_column(const index_t* col_indices, index_t begin, index_t end, index_t col) {
    constexpr index_t kFew = 8;
    const index_t row_end = end;
    while (end - begin > kFew) {
        const index_t middle = begin + (end - begin) / 2;
        if (col_indices[middle] <= col) {
            begin = middle;
        } else {
            end = middle;
        }
    }
    for (; begin < end; ++begin) {
        if (col_indices[begin] == col) return begin;
    }
    return row_end;
}

// The position of a column that occurs among ascending ones.
constexpr index_t place_of(const index_t* cols, index_t count, index_t col) {
    index_t place = 0;
    while (count > 1) {
        const index_t half = count / 2;
        if (cols[place + half] <= col) place += half;
        count -= half;
    }
    return place;
}

// Positions of the columns of one row after another: a hash table that forgets in constant time.
class ColumnPlaces {
public:
    void take(const index_t* cols, index_t count) {
        if (slots_.size() < std::size_t(2) * count) {
            bits_ = slot_bits_for(2 * std::int64_t(count));
            slots_.assign(std::size_t(1) << bits_, Slot{0, 0, 0});
            round_ = 0;
        }
        if (++round_ == 0) {
            std::fill(slots_.begin(), slots_.end(), Slot{0, 0, 0});
            round_ = 1;
        }
        const std::uint32_t mask = static_cast<std::uint32_t>(slots_.size()) - 1;
        for (index_t place = 0; place < count; ++place) {
            std::uint32_t at = first_slot(static_cast<std::uint64_t>(cols[place]), bits_);
            while (slots_[at].round == round_) at = (at + 1) & mask;
            slots_[at] = {round_, cols[place], place};
        }
    }
    // Requires a column that occurs.
    index_t operator[](index_t col) const {
        const std::uint32_t mask = static_cast<std::uint32_t>(slots_.size()) - 1;
        std::uint32_t at = first_slot(static_cast<std::uint64_t>(col), bits_);
        while (slots_[at].col != col || slots_[at].round != round_) at = (at + 1) & mask;
        return slots_[at].place;
    }

private:
    struct Slot {
        std::uint32_t round;
        index_t col, place;
    };
    HostVector<Slot> slots_;
    int bits_ = 0;
    std::uint32_t round_ = 0;
};

template <class T>
void multiply_values(HostPasses& /*passes*/, const CsrMatrix<T>& left, const CsrMatrix<T>& right,
                     CsrMatrix<T>& product) {
    const std::int64_t terms = right.rows > 0 ? std::int64_t(left.nnz) * (1 + right.nnz / right.rows) : 0;
    parallel_ranges(left.rows, kNanosecondsPerTerm * terms, [&](std::int64_t first, std::int64_t last) {
        HostVector<Wide<T>> sums;
        ColumnPlaces places;
        InterruptTimer timer;
        const index_t *const row_offsets = product.row_offsets.data(), *const cols = product.col_indices.data();
        for (std::int64_t row = first; row < last; ++row) {
            const index_t begin = row_offsets[row], count = row_offsets[row + 1] - begin;
            sums.assign(count, Wide<T>(0));
            const index_t left_end = left.row_offsets[row + 1];
            constexpr index_t kFew = 6;
            if (count > kFew) places.take(cols + begin, count);
            for (index_t k = left.row_offsets[row]; k < left_end; ++k) {
                const auto factor = Wide<T>(left.values[k]);
                const index_t middle = left.col_indices[k], right_end = right.row_offsets[middle + 1];
                index_t place = 0;
                for (index_t other = right.row_offsets[middle]; other < right_end; ++other) {
                    const index_t col = right.col_indices[other];
                    if (count > kFew) {
                        place = places[col];
                    } else {
                        while (cols[begin + place] != col) ++place;
                    }
                    sums[place] += factor * Wide<T>(right.values[other]);
                }
                timer.work(right_end - right.row_offsets[middle] + 1);
            }
            for (index_t i = 0; i < count; ++i) product.values[begin + i] = T(sums[i]);
        }
    });
}

// A product in which some lanes add up a row, in memory for `capacity` sums and columns.
template <class T>
struct RowsOfProduct {
    CsrPattern left, right, product;
    const T *left_values, *right_values;
    T* values;

    static constexpr std::int64_t words(index_t capacity) {
        return std::int64_t(capacity) * ((sizeof(Wide<T>) + sizeof(index_t)) / sizeof(Word));
    }

    // An entry of the row of the left matrix: a row of the right one, and its factor.
    struct Summand {
        index_t begin, length;
        Wide<T> factor;
    };
    SPMVGPU_IN_BODY Summand summand(index_t k, index_t end) const {
        if (k >= end) return {0, 0, Wide<T>(0)};
        const index_t middle = left.col_indices[k], begin = right.row_offsets[middle];
        return {begin, right.row_offsets[middle + 1] - begin, Wide<T>(left_values[k])};
    }

    template <class Lanes>
    SPMVGPU_IN_BODY void multiply(const Lanes& lanes, index_t row, index_t capacity, Word* memory) const {
        const index_t begin = product.row_offsets[row], count = product.row_offsets[row + 1] - begin;
        auto* const sums = reinterpret_cast<Wide<T>*>(memory);
        auto* const cols = reinterpret_cast<index_t*>(sums + capacity);
        lanes.share(count, [&](index_t i) {
            sums[i] = Wide<T>(0);
            cols[i] = product.col_indices[begin + i];
        });
        const index_t first = left.row_offsets[row], end = left.row_offsets[row + 1];
        Summand now = summand(first, end);
        for (index_t k = first; k < end; ++k) {
            const Summand next = summand(k + 1, end);  // loaded before this one is added
            lanes.share(now.length, [&](index_t i) {
                const index_t place = place_of(cols, count, right.col_indices[now.begin + i]);
                sums[place] += now.factor * Wide<T>(right_values[now.begin + i]);
            });
            now = next;
        }
        lanes.share(count, [&](index_t i) { values[begin + i] = T(sums[i]); });
    }

    // The lanes add up a part of a row, of at most `capacity` entries, with terms of several runs at once.
    static constexpr std::int64_t words_in_turn(index_t capacity) {
        return words(capacity) + capacity * std::int64_t(sizeof(index_t) / sizeof(Word));
    }
    static constexpr auto kOfBlock = static_cast<index_t>(kBlockWords / words_in_turn(1));
    struct Term {
        index_t col;
        Wide<T> product;
    };
    template <class Lanes>
    SPMVGPU_IN_BODY void multiply_in_turn(const Lanes& lanes, index_t row, index_t part, index_t capacity,
                                          Word* memory) const {
        const std::int64_t begin = product.row_offsets[row] + std::int64_t(part) * capacity;
        const std::int64_t after = product.row_offsets[row + 1] - begin;
        if (after <= 0) return;
        const index_t count = after < capacity ? static_cast<index_t>(after) : capacity;
        auto* const sums = reinterpret_cast<Wide<T>*>(memory);
        auto* const cols = reinterpret_cast<index_t*>(sums + capacity);
        auto* const turns = reinterpret_cast<typename Lanes::Turn*>(cols + capacity);
        lanes.share(count, [&](index_t i) {
            sums[i] = Wide<T>(0);
            cols[i] = product.col_indices[begin + i];
            turns[i] = Lanes::kNoTurn;
        });
        const index_t first = left.row_offsets[row], first_col = cols[0], last_col = cols[count - 1];
        lanes.each_of_runs_in_turn(
            left.row_offsets[row + 1] - first,
            [&](index_t i) -> Run {
                const index_t middle = left.col_indices[first + i];
                return {right.row_offsets[middle], right.row_offsets[middle + 1]};
            },
            turns,
            [&](index_t i, index_t k) -> Term {
                return {right.col_indices[k], Wide<T>(left_values[first + i]) * Wide<T>(right_values[k])};
            },
            [&](const Term& term) -> index_t {
                return first_col <= term.col && term.col <= last_col ? place_of(cols, count, term.col) : -1;
            },
            [&](const Term& term, index_t place) { sums[place] += term.product; });
        lanes.share(count, [&](index_t i) { values[begin + i] = T(sums[i]); });
    }
};

// The values of a few rows of a product, from their sorted terms.
template <class T, class Passes>
void multiply_sorted(Passes& passes, const RowsOfProduct<T>& rows, const Array<index_t>& listed) {
    const TermsOfRows terms_of{rows.left, rows.right};
    for (const ListedStretch& stretch : stretches_to_sort(passes, listed, terms_of)) {
        const index_t* const own = listed.data() + stretch.first;
        const SortedTerms terms = sort_terms(passes, own, stretch.count, rows.right.cols, terms_of);
        const index_t *const starts = terms.starts.data(), *const first_starts = terms.first_starts.data();
        const index_t *const order = terms.order.data(), *const entries = terms.entries.data();
        const index_t *const runs = terms.runs.data(), *const rows_of_runs = terms.rows_of_runs.data(),
                             *const first_runs = terms.first_runs.data();
        passes.each(static_cast<std::int64_t>(terms.starts.size()) - 1, [=] SPMVGPU_BODY(std::int64_t u) {
            const index_t i = rows_of_runs[runs[order[starts[u]]]], row = own[i];
            const index_t first = rows.left.row_offsets[row] - first_runs[i];
            Wide<T> sum(0);
            for (index_t k = starts[u]; k < starts[u + 1]; ++k) {
                const index_t term = order[k];
                sum += Wide<T>(rows.left_values[first + runs[term]]) * Wide<T>(rows.right_values[entries[term]]);
            }
            rows.values[rows.product.row_offsets[row] + (u - first_starts[i])] = T(sum);
        });
    }
}

// The length of a row, which may not exist.
constexpr index_t length_of_row(const CsrPattern& csr, std::int64_t row) {
    return row < csr.rows ? csr.row_offsets[row + 1] - csr.row_offsets[row] : 0;
}

// Rows of a product by who adds them up: few lanes short ones, a block long ones, and as many blocks the longest ones
// as the longest of all needs.
enum RowSharing { kByFew, kByWarp, kByBlock, kByBlocks, kSharings };

struct RowsByLength {
    std::int64_t counts[kSharings] = {};
    index_t longest = 0, longest_left = 0, longest_right = 0;

    constexpr RowsByLength& operator+=(const RowsByLength& other) {
        for (int i = 0; i < kSharings; ++i) counts[i] += other.counts[i];
        if (other.longest > longest) longest = other.longest;
        if (other.longest_left > longest_left) longest_left = other.longest_left;
        if (other.longest_right > longest_right) longest_right = other.longest_right;
        return *this;
    }
};

template <class T, class Passes>
void multiply_values(Passes& passes, const CsrMatrix<T>& left, const CsrMatrix<T>& right, CsrMatrix<T>& product) {
    const RowsOfProduct<T> rows{left.pattern(),     right.pattern(),     product.pattern(),
                                left.values.data(), right.values.data(), product.values.data()};
    const std::int64_t work =
        kNanosecondsPerTerm * (left.nnz / std::max(1, left.rows)) * (right.nnz / std::max(1, right.rows) + 1);
    constexpr index_t kManyRows = 1 << 13;  // as many rows keep a GPU busy with few lanes each
    constexpr auto kMostOfFew = static_cast<index_t>(kFewWords / RowsOfProduct<T>::words(1));
    constexpr index_t kShort = 32;  // for few lanes, if other rows are too long for them
    constexpr index_t kOfBlock = RowsOfProduct<T>::kOfBlock;
    const index_t most_of_few = product.rows < kManyRows ? 0 : kShort;
    const auto kind_of = [=] SPMVGPU_BODY(std::int64_t row) {
        const index_t length = length_of_row(rows.product, row);
        if (length <= most_of_few) return length > 0 ? kByFew : kSharings;
        return length <= kMostOfWarp ? kByWarp : length <= kOfBlock ? kByBlock : kByBlocks;
    };
    const auto found =
        passes.template reduce<RowsByLength>(std::max(left.rows, right.rows), [=] SPMVGPU_BODY(std::int64_t row) {
            RowsByLength own;
            own.longest = length_of_row(rows.product, row);
            own.longest_left = length_of_row(rows.left, row);
            own.longest_right = length_of_row(rows.right, row);
            const int kind = own.longest > 0 ? kind_of(row) : kSharings;
            if (kind < kSharings) own.counts[kind] = 1;
            return own;
        });
    if (most_of_few > 0 && found.longest <= kMostOfFew) {
        const index_t capacity = found.longest;
        return passes.each_by_few_with(
            product.rows, rows.words(capacity),
            [=] SPMVGPU_BODY(const auto& lanes, std::int64_t row, Word* memory) {
                rows.multiply(lanes, static_cast<index_t>(row), capacity, memory);
            },
            work);
    }
    const auto lists = list_kinds<kSharings>(passes, product.rows, std::to_array(found.counts), kind_of);
    const index_t *const of_few = lists[kByFew].data(), *const of_warps = lists[kByWarp].data();
    passes.each_by_few_with(
        found.counts[kByFew], rows.words(kShort),
        [=] SPMVGPU_BODY(const auto& lanes, std::int64_t i, Word* memory) {
            rows.multiply(lanes, of_few[i], kShort, memory);
        },
        work);
    const index_t most = std::min(found.longest, kMostOfWarp);
    passes.each_in_step_with(
        found.counts[kByWarp], rows.words_in_turn(most),
        [=] SPMVGPU_BODY(const auto& lanes, std::int64_t i, Word* memory) {
            rows.multiply_in_turn(lanes, of_warps[i], 0, most, memory);
        },
        work);
    const bool are_short = std::int64_t(found.longest_left) * found.longest_right <= kMostTermsOfBlock;
    for (const RowSharing kind : {kByBlock, kByBlocks}) {
        if (found.counts[kind] == 0) continue;
        const index_t longest = kind == kByBlock ? kOfBlock : found.longest;
        const LongRows long_rows = are_short
                                       ? LongRows{lists[kind], {}}
                                       : divide_long_rows(passes, lists[kind], TermsOfRows{rows.left, rows.right});
        const index_t* const listed = long_rows.of_blocks.data();
        const std::int64_t blocks = (longest - 1) / kOfBlock + 1;
        passes.each_by_block_with(
            static_cast<std::int64_t>(long_rows.of_blocks.size()) * blocks, kBlockWords,
            [=] SPMVGPU_BODY(const auto& lanes, std::int64_t i, Word* memory) {
                const auto part = static_cast<index_t>(i % blocks);
                rows.multiply_in_turn(lanes, listed[i / blocks], part, kOfBlock, memory);
            },
            work);
        multiply_sorted(passes, rows, long_rows.to_sort);
    }
}

// A matrix with a pattern, whose values are not initialised. The arrays are shared.
template <class T, class Passes>
CsrMatrix<T> with_values(Passes& passes, const PatternArrays& pattern) {
    return {pattern.rows,        pattern.cols,        pattern.nnz,
            pattern.row_offsets, pattern.col_indices, passes.template make<T>(pattern.nnz)};
}

// The product of two canonical matrices on one device.
template <class T>
struct SparseProduct {
    using Result = CsrMatrix<T>;
    const CsrMatrix<T>&left, &right;

    template <class Passes>
    Result operator()(Passes& passes) const {
        if (left.nnz == 0 || right.nnz == 0) {
            Array<index_t> offsets = passes.template make<index_t>(left.rows + std::size_t(1));
            passes.fill(offsets.data(), left.rows + std::int64_t(1), index_t(0));
            return with_values<T>(passes, {left.rows, right.cols, 0, std::move(offsets), {}});
        }
        CsrMatrix<T> product = with_values<T>(passes, product_pattern(passes, left.pattern(), right.pattern()));
        multiply_values(passes, left, right, product);
        return product;
    }
};

// The pattern of the transpose, and the position of each of its entries in the matrix.
struct TransposedPattern {
    PatternArrays pattern;
    Array<index_t> entries;
};

template <class Passes>
TransposedPattern transposed_pattern(Passes& passes, const CsrPattern& csr) {
    const index_t rows = csr.rows, cols = csr.cols, nnz = csr.nnz;
    const index_t* const col_indices = csr.col_indices;
    TransposedPattern result;
    result.entries = passes.keep(passes.order_by_key(nnz, nnz > 0 ? nnz : 1, cols > 0 ? cols - 1 : 0,
                                                     [=] SPMVGPU_BODY(index_t k) { return col_indices[k]; }));
    result.pattern = {cols, rows, nnz, passes.template make<index_t>(cols + std::size_t(1)),
                      passes.template make<index_t>(nnz)};
    const index_t* const from = result.entries.data();
    index_t *const new_offsets = result.pattern.row_offsets.data(), *const to = result.pattern.col_indices.data();
    Array<index_t> row_of_entries = passes.template scratch<index_t>(nnz);
    index_t* const row_of = row_of_entries.data();
    passes.each_entry(rows, csr.row_offsets, nnz, [=] SPMVGPU_BODY(index_t row, index_t k) { row_of[k] = row; });
    passes.each(std::int64_t(nnz) + 1, [=] SPMVGPU_BODY(std::int64_t i) {
        const index_t begin = i > 0 ? col_indices[from[i - 1]] + 1 : 0;
        const index_t end = i < nnz ? col_indices[from[i]] : cols;
        for (index_t col = begin; col <= end; ++col) new_offsets[col] = static_cast<index_t>(i);
        if (i < nnz) to[i] = row_of[from[i]];
    });
    return result;
}

}  // namespace spmvgpu::multigrid
