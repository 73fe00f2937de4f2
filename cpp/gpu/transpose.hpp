// Columns of vectors turned into contiguous rows on a GPU, and back.
#pragma once

#include "core/columns.hpp"
#include "core/types.hpp"

namespace spmvgpu::cuda {

// to[i * count + j] = entry map[i] of vector j, for up to kMaxColumns vectors of which `length` entries are taken.
// Without a map (nullptr), i stands for map[i], here and below.
template <class T>
void columns_to_rows(T* to, const Columns<const T>& from, const index_t* map, index_t length, int ordinal,
                     Stream stream);

// Entry map[i] of vector j = from[i * count + j] + beta times itself, without reading it where beta is zero.
template <class T>
void rows_to_columns(const Columns<T>& to, const T* from, const index_t* map, index_t length, T beta, int ordinal,
                     Stream stream);

}  // namespace spmvgpu::cuda
