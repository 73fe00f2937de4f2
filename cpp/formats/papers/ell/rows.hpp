#pragma once

#include <bit>
#include <cstdint>

#include "formats/papers/ellpack/layout.hpp"
#include "formats/papers/ellpack_r/layout.hpp"
#include "formats/papers/ellr_t/layout.hpp"
#include "formats/rows.hpp"

namespace spmvgpu::gpu {

template <class T>
struct EllRows {
    EllShape shape;
    unsigned threads_shift;  // threads_per_row is a power of two
    const index_t* __restrict__ row_lengths;
    const index_t* __restrict__ col_indices;
    const T* __restrict__ values;

    SPMVGPU_ON_DEVICE Row row(index_t r) const {
        return {std::int64_t(r) << threads_shift,
                static_cast<unsigned>(row_lengths ? row_lengths[r] : shape.width << threads_shift)};
    }
    SPMVGPU_ON_DEVICE index_t number(index_t r) const { return r; }
    SPMVGPU_ON_DEVICE void load(const Row& row, unsigned k, index_t& col, T& value) const {
        const std::int64_t slot =
            row.begin + std::int64_t(k >> threads_shift) * shape.pitch + (k & ((1u << threads_shift) - 1));
        col = col_indices[slot];
        value = gpu::load(values + slot);
    }
};
template <class T, class Kind>
EllRows<T> rows_of(const Ell<T, Kind>& ell) {
    const auto threads = static_cast<unsigned>(ell.slots.shape.threads_per_row);
    return {ell.slots.shape, static_cast<unsigned>(std::countr_zero(threads)), ell.lengths(),
            ell.slots.col_indices.data(), ell.slots.values.data()};
}

}  // namespace spmvgpu::gpu
