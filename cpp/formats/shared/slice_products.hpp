// The CPU's inner loop shared by every format that stores rows side by side, column of slots by column of slots.
#pragma once

#include "core/columns.hpp"
#include "core/parallel.hpp"
#include "core/types.hpp"

namespace spmvgpu {

inline constexpr index_t kSliceLanes = 32;  // neighbouring rows that are added up together, a SIMD lane each

// The sums of kSliceLanes rows over `columns` columns that lie `pitch` slots apart; column -1 marks padding. The
// function is static because one with clones cannot be merged between object files.
template <class T>
SPMVGPU_SIMD_CLONES static void sum_slice(const T* values, const index_t* col_indices, index_t columns,
                                          std::int64_t pitch, const T* x, T* sums) {
    for (index_t lane = 0; lane < kSliceLanes; ++lane) sums[lane] = T(0);
    for (index_t column = 0; column < columns; ++column, values += pitch, col_indices += pitch) {
#pragma omp simd
        for (index_t lane = 0; lane < kSliceLanes; ++lane) {
            const index_t col = col_indices[lane];
            if (col >= 0) sums[lane] += values[lane] * x[col];
        }
    }
}

// sum_slice() with several vectors: calls store(c, sums) for groups of columns from column c on, where sums[lane] has
// the sums of a row for each column of the group.
template <class T, class Store>
SPMVGPU_SIMD_CLONES static void sum_slice_panel(const T* values, const index_t* col_indices, index_t columns,
                                                std::int64_t pitch, const Product<T>& product, Store store) {
    for_column_groups<kPanelColumns<T>>(0, product.columns, [&]<int kColumns>(index_t c) {
        T sums[kSliceLanes][kColumns] = {};
        for (index_t column = 0; column < columns; ++column) {
            const T* const value = values + column * pitch;
            const index_t* const col = col_indices + column * pitch;
            for (index_t lane = 0; lane < kSliceLanes; ++lane) {
                if (col[lane] < 0) continue;
                const T* const row = product.x + col[lane] * product.x_strides.row + c;
#pragma omp simd
                for (int i = 0; i < kColumns; ++i) sums[lane][i] += value[lane] * row[i];
            }
        }
        store(c, sums);
    });
}

}  // namespace spmvgpu
