// Products with several vectors at once on the CPU, for formats in row order: x and y are row-major, so that an entry
// of the matrix is read once for all columns, and a row of x is read in one go. Work is split as for one vector
// (row_products.hpp), and each column's sum is made in the same order, so that it has the same bits.
#pragma once

#include <vector>

#include "core/columns.hpp"
#include "core/parallel.hpp"
#include "formats/row_products.hpp"

namespace spmvgpu {

// Sums of values[k] * x[col_indices[k]] over [begin, end) for kColumns columns, in the order of sum_products.
template <int kColumns, class T>
inline void sum_panel(const T* values, const index_t* col_indices, const T* x, std::ptrdiff_t ldx, index_t begin,
                      index_t end, T* sums) {
    const auto add = [&](T* to, index_t k) {
        const T value = values[k];
        const T* const row = x + col_indices[k] * ldx;
#pragma omp simd
        for (int c = 0; c < kColumns; ++c) to[c] += value * row[c];
    };
    T rest[kColumns] = {};
    T lanes[kSumLanes][kColumns] = {};
    const bool is_short = end - begin < kShortRow;
    index_t k = begin;
    if (!is_short) {
        for (; end - k >= kSumLanes; k += kSumLanes) {
            for (int lane = 0; lane < kSumLanes; ++lane) add(lanes[lane], k + lane);
        }
        for (int half = kSumLanes / 2; half > 0; half /= 2) {
            for (int lane = 0; lane < half; ++lane) {
                for (int c = 0; c < kColumns; ++c) lanes[lane][c] += lanes[lane + half][c];
            }
        }
    }
    for (; k < end; ++k) add(rest, k);
    for (int c = 0; c < kColumns; ++c) sums[c] = is_short ? rest[c] : lanes[0][c] + rest[c];
}

// Products of a row with any number of columns, each as sum_panel() adds it up.
template <class T>
inline void sum_row(const T* values, const index_t* col_indices, const Product<T>& product, index_t begin, index_t end,
                    T* sums) {
    for_column_groups<kPanelColumns<T>>(0, product.columns, [&]<int kColumns>(index_t c) {
        sum_panel<kColumns>(values, col_indices, product.x + c, product.x_strides.row, begin, end, sums + c);
    });
}

// A piece's walk from `begin` to `end`, as walk_rows. The function is static because one with clones cannot be merged
// between object files.
template <class T>
SPMVGPU_SIMD_CLONES static void walk_panel(MergePoint begin, MergePoint end, const index_t* row_offsets,
                                           const T* values, const index_t* col_indices, Product<T> product,
                                           T* unfinished) {
    index_t nz = begin.nz;
    for (index_t row = begin.row; row < end.row; ++row) {
        sum_row(values, col_indices, product, nz, row_offsets[row + 1], product.y + row * product.y_strides.row);
        nz = row_offsets[row + 1];
    }
    sum_row(values, col_indices, product, nz, end.nz, unfinished);
}

template <class T>
void multiply_panel_by_rows(index_t rows, const index_t* row_offsets, const T* values, const index_t* col_indices,
                            const Product<T>& product) {
    if (rows == 0) return;
    const RowPieces pieces(rows, row_offsets);
    const std::size_t columns = product.columns;
    std::vector<T> unfinished(pieces.count * columns);
    for_each_piece(pieces.count, [&](std::int64_t p) {
        walk_panel(pieces.begin(p), pieces.begin(p + 1), row_offsets, values, col_indices, product,
                   unfinished.data() + p * columns);
    });
    for (std::int64_t p = 0; p + 1 < pieces.count; ++p) {
        const index_t row = pieces.begin(p + 1).row;
        if (row == rows) continue;
        for (std::size_t c = 0; c < columns; ++c)
            product.y[row * product.y_strides.row + c] += unfinished[p * columns + c];
    }
}

}  // namespace spmvgpu
