#pragma once

#include <cstdint>

#include "formats/rows.hpp"
#include "formats/stencil/layout.hpp"

namespace spmvgpu::gpu {

template <class T>
struct StencilRows {
    const std::uint16_t* __restrict__ kinds;
    const RowKind* __restrict__ all;
    const Word* __restrict__ masks;
    const index_t* __restrict__ offsets;
    const T* __restrict__ values;

    struct alignas(16) Words {  // a kind, in one load
        int x, y, z, w;
    };

    SPMVGPU_ON_DEVICE RowKind kind(index_t number) const {
        const Words kind = *reinterpret_cast<const Words*>(all + number);
        return {kind.x, kind.y, kind.z, static_cast<std::uint16_t>(kind.w), static_cast<std::uint16_t>(kind.w >> 16)};
    }
    SPMVGPU_ON_DEVICE Row row(index_t r) const { return {r, static_cast<unsigned>(kind(kinds[r]).length)}; }
    SPMVGPU_ON_DEVICE index_t number(index_t r) const { return r; }
    SPMVGPU_ON_DEVICE void load(const Row& row, unsigned k, index_t& col, T& value) const {
        const RowKind own = kind(kinds[row.begin]);
        if (!own.has_slot(masks, static_cast<index_t>(k))) return;
        col = static_cast<index_t>(row.begin) + offsets[own.begin + k];
        value = gpu::load(values + own.begin + k);
    }
};
template <class T>
StencilRows<T> rows_of(const Stencil<T>& stencil) {
    return {stencil.kinds.data(), reinterpret_cast<const RowKind*>(stencil.stencils.data()), stencil.masks.data(),
            stencil.offsets.data(), stencil.values.data()};
}

}  // namespace spmvgpu::gpu
