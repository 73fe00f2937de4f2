// The CPU product shared by every format that keeps non-zeros in row order behind row_offsets: rows and non-zeros
// together are cut into even pieces (merge path: Merrill and Garland, SC 2016), so that neither a long row nor a run of
// empty ones leaves one thread with the work of all.
#pragma once

#include <algorithm>
#include <vector>

#include "core/parallel.hpp"
#include "core/types.hpp"

namespace spmvgpu {

// Sum of values[k] * x[col_indices[k]] over [begin, end).
template <class T>
inline T sum_products(const T* values, const index_t* col_indices, const T* x, index_t begin, index_t end) {
    T sum = 0;
    // Vector set-up and remainder cost more than they save on the short rows of stencils.
    constexpr index_t kShortRow = 16;
    if (end - begin < kShortRow) {
        for (index_t k = begin; k < end; ++k) sum += values[k] * x[col_indices[k]];
        return sum;
    }
#pragma omp simd reduction(+ : sum)
    for (index_t k = begin; k < end; ++k) sum += values[k] * x[col_indices[k]];
    return sum;
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

// y[row] = alpha * sum + beta * y[row], without reading y where beta is zero.
template <class T>
inline void store_row(const Product<T>& product, index_t row, T sum) {
    T& y = product.y[product.row_of_y(row)];
    y = product.beta == T(0) ? product.alpha * sum : product.alpha * sum + product.beta * y;
}

// The rest of a row's sum, once the row has been stored.
template <class T>
inline void add_to_row(const Product<T>& product, index_t row, T sum) {
    product.y[product.row_of_y(row)] += product.alpha * sum;
}

// A piece's walk from `begin` to `end`: rows that end on the way are written, and the sum of the row that does not is
// returned, for the caller to add once the piece that ends that row has written it.
template <class T, class RowSum>
SPMVGPU_SIMD_CLONES T walk_rows(MergePoint begin, MergePoint end, const index_t* row_offsets, Product<T> product,
                                RowSum row_sum) {
    index_t nz = begin.nz;
    for (index_t row = begin.row; row < end.row; ++row) {
        store_row(product, row, row_sum(nz, row_offsets[row + 1], product.x));
        nz = row_offsets[row + 1];
    }
    return nz < end.nz ? row_sum(nz, end.nz, product.x) : T(0);
}

// row_sum(begin, end, x): the sum of the products of the non-zeros [begin, end).
template <class T, class RowSum>
void spmv_by_rows_and_nonzeros(index_t rows, const index_t* row_offsets, const Product<T>& product, RowSum row_sum) {
    if (rows == 0) return;
    const std::int64_t steps = std::int64_t(rows) + row_offsets[rows];
    const std::int64_t pieces = piece_count(steps);
    const auto point = [&](std::int64_t p) { return merge_point(part_begin(steps, pieces, p), rows, row_offsets); };
    if (pieces == 1) {
        walk_rows(point(0), point(1), row_offsets, product, row_sum);
        return;
    }
    struct Rest {
        index_t row;
        T sum;
    };
    std::vector<Rest> unfinished(pieces);
    for_each_piece(pieces, [&](std::int64_t p) {
        const MergePoint end = point(p + 1);
        unfinished[p] = {end.row, walk_rows(point(p), end, row_offsets, product, row_sum)};
    });
    for (const Rest& rest : unfinished) {
        if (rest.row < rows) add_to_row(product, rest.row, rest.sum);
    }
}

}  // namespace spmvgpu
