#pragma once

#include "formats/dia/rows.hpp"
#include "formats/sdia/layout.hpp"

namespace spmvgpu::gpu {

// Takes x from the column `first_col` on.
template <class T>
Diagonals<T> diagonals_of(const Sdia<T>& sdia) {
    return {.rows = sdia.rows,
            .before = sdia.before,
            .cols = static_cast<unsigned>(sdia.upper.cols),
            .stored = static_cast<unsigned>(sdia.upper.diagonals()),
            .mirrored = static_cast<unsigned>(sdia.mirrored()),
            .pitch = sdia.upper.pitch,
            .padding = sdia.upper.padding,
            .mirror = sdia.mirror()};
}

template <class T>
DiagonalRows<T, true> rows_of(const Sdia<T>& sdia) {
    return {diagonals_of(sdia), sdia.first_col, sdia.upper.offsets.data(), sdia.upper.values.data()};
}

}  // namespace spmvgpu::gpu
