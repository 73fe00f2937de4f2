// The CPU product shared by every format that keeps non-zeros in row order behind row_offsets: rows and non-zeros
// together are cut into even pieces (merge path: Merrill and Garland, SC 2016), so that neither a long row nor a run of
// empty ones leaves one thread with the work of all.
#pragma once

#include <algorithm>
#include <bit>
#include <vector>

#include "core/parallel.hpp"
#include "core/types.hpp"

namespace spmvgpu {

// Vector set-up and remainder cost more than they save on the short rows of stencils: such rows are added up in order.
inline constexpr index_t kShortRow = 16;

// Rows that formats in diagonals process together; their intermediate results stay in the L1. Small matrices have
// smaller blocks of rows, so that no thread waits for the last one.
inline constexpr index_t kRowsTogether = 512;
inline index_t rows_of_block(index_t rows) {
    constexpr index_t kLeast = 128, kBlocks = 16;
    return std::clamp(rows / kBlocks / kLeast * kLeast, kLeast, kRowsTogether);
}

// In a longer row entry k goes to sum k % kSumLanes, and the remainder to a sum of its own; then halves of the sums are
// added to each other. The order is fixed here, rather than left to the compiler, so that products with several vectors
// can keep it. Four sums stay in registers on every processor, and suffice: reading x takes longer than adding.
inline constexpr int kSumLanes = 4;

template <class T, class Factor>
inline T sum_products(const T* values, index_t begin, index_t end, Factor factor) {
    // In order, four in a step of the loop, because counting takes as long as adding.
    const auto add_up = [&](index_t k) {
        T sum = 0;
        const auto add = [&](index_t i) { sum += values[i] * factor(i); };
        for (; end - k >= 4; k += 4) add(k), add(k + 1), add(k + 2), add(k + 3);
        if (end - k >= 2) {
            add(k), add(k + 1);
            k += 2;
        }
        if (k < end) add(k);
        return sum;
    };
    if (end - begin < kShortRow) return add_up(begin);
    T lanes[kSumLanes] = {};
    index_t k = begin;
    for (; end - k >= kSumLanes; k += kSumLanes) {
#pragma omp simd
        for (int lane = 0; lane < kSumLanes; ++lane) lanes[lane] += values[k + lane] * factor(k + lane);
    }
    const T rest = add_up(k);
    for (int half = kSumLanes / 2; half > 0; half /= 2) {
        for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
    }
    return lanes[0] + rest;
}

// A point on the merge path of row ends with non-zeros: `row` rows are finished and `nz` non-zeros are consumed.
struct MergePoint {
    index_t row, nz;
};

// The point after `diagonal` steps, a step being a row end or a non-zero.
inline MergePoint merge_point(std::int64_t diagonal, index_t rows, const index_t* row_offsets) {
    const index_t nnz = row_offsets[rows];
    auto low = static_cast<index_t>(std::max<std::int64_t>(diagonal - nnz, 0));
    auto high = static_cast<index_t>(std::min<std::int64_t>(diagonal, rows));
    while (low < high) {
        const index_t middle = low + (high - low) / 2;
        if (row_offsets[middle + 1] <= diagonal - middle - 1) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return {low, static_cast<index_t>(diagonal - low)};
}

template <class T>
inline void store_row(const Product<T>& product, index_t row, T sum) {
    T& y = product.y[product.row_of_y(row)];
    y = product.beta == T(0) ? scaled(product.alpha, sum) : scaled(product.alpha, sum) + scaled(product.beta, y);
}

// Adds the rest of a row's sum, once the row has been stored.
template <class T>
inline void add_to_row(const Product<T>& product, index_t row, T sum) {
    product.y[product.row_of_y(row)] += scaled(product.alpha, sum);
}

// A piece's walk from `begin` to `end`. It stores the rows that end on the way and returns the sum of the row that does
// not, for the caller to add once the piece that ends that row has stored it. There are no clones, because reading x
// entry by entry dominates, and wider registers do not make that faster.
template <class T, class RowSum>
inline T walk_rows(MergePoint begin, MergePoint end, const index_t* row_offsets, Product<T> product, RowSum row_sum) {
    const bool as_it_is = product.alpha == T(1) && product.beta == T(0) && product.row_map == nullptr;
    index_t nz = begin.nz;
    for (index_t row = begin.row; row < end.row; ++row) {
        const index_t row_end = row_offsets[row + 1];
        const T sum = row_sum(nz, row_end, product.x);
        if (as_it_is) {
            product.y[row] = sum;
        } else {
            store_row(product, row, sum);
        }
        nz = row_end;
    }
    return nz < end.nz ? row_sum(nz, end.nz, product.x) : T(0);
}

struct RowPieces {
    index_t rows;
    const index_t* row_offsets;
    std::int64_t steps, count;

    RowPieces(index_t rows, const index_t* row_offsets)
        : rows(rows),
          row_offsets(row_offsets),
          steps(std::int64_t(rows) + row_offsets[rows]),
          count(count_for(steps)) {}

    // In most programs threads sleep between products, and to wake them takes as long as a small product. A small
    // number of pieces is a power of two, so that each thread gets equally many.
    static std::int64_t count_for(std::int64_t steps) {
        constexpr std::int64_t kWorthWaking = 100'000;
        constexpr std::uint64_t kFew = 16;
        if (steps < kWorthWaking) return 1;
        const auto pieces = static_cast<std::uint64_t>(piece_count(steps));
        return static_cast<std::int64_t>(pieces < kFew ? std::bit_ceil(pieces) : pieces);
    }

    MergePoint begin(std::int64_t p) const { return merge_point(part_begin(steps, count, p), rows, row_offsets); }
};

// row_sum(begin, end, x): the sum of the products of the non-zeros [begin, end).
template <class T, class RowSum>
void spmv_by_rows_and_nonzeros(index_t rows, const index_t* row_offsets, const Product<T>& product, RowSum row_sum) {
    if (rows == 0) return;
    const RowPieces pieces(rows, row_offsets);
    if (pieces.count == 1) {
        walk_rows(pieces.begin(0), pieces.begin(1), row_offsets, product, row_sum);
        return;
    }
    struct Rest {
        index_t row;
        T sum;
    };
    std::vector<Rest> unfinished(pieces.count);
    for_each_piece(pieces.count, [&](std::int64_t p) {
        const MergePoint end = pieces.begin(p + 1);
        unfinished[p] = {end.row, walk_rows(pieces.begin(p), end, row_offsets, product, row_sum)};
    });
    for (const Rest& rest : unfinished) {
        if (rest.row < rows) add_to_row(product, rest.row, rest.sum);
    }
}

}  // namespace spmvgpu
