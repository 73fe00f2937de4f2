#pragma once

#include <cstdint>

#include "formats/rows.hpp"
#include "formats/sell/layout.hpp"

namespace spmvgpu::gpu {

template <class T>
struct SellRows {
    const index_t* __restrict__ slice_offsets;
    const index_t* __restrict__ col_indices;
    const T* __restrict__ values;
    const index_t* __restrict__ permutation;

    SPMVGPU_ON_DEVICE Row row(index_t r) const {
        const index_t slice = r / Sell<T>::kSliceRows;
        const index_t begin = slice_offsets[slice], end = slice_offsets[slice + 1];
        return {begin + r % Sell<T>::kSliceRows, static_cast<unsigned>(end - begin) / Sell<T>::kSliceRows};
    }
    SPMVGPU_ON_DEVICE index_t number(index_t r) const { return permutation ? permutation[r] : r; }
    SPMVGPU_ON_DEVICE void load(const Row& row, unsigned k, index_t& col, T& value) const {
        const std::int64_t slot = row.begin + std::int64_t(k) * Sell<T>::kSliceRows;
        col = col_indices[slot];
        value = gpu::load(values + slot);
    }
};
template <class T>
SellRows<T> rows_of(const Sell<T>& sell) {
    return {sell.slice_offsets.data(), sell.col_indices.data(), sell.values.data(), sell.permutation.data()};
}

}  // namespace spmvgpu::gpu
