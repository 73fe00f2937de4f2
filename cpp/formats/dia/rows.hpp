#pragma once

#include <cstdint>

#include "formats/dia/layout.hpp"
#include "formats/rows.hpp"

namespace spmvgpu::gpu {

// Diagonals of a matrix with this many columns, of which `rows` rows from the row `before` on are multiplied. The
// diagonals left of the main one are the mirror images of the last `mirrored` stored ones, in reverse order; the stored
// ones follow. A value is not needed any more once it has been read as a mirror image.
template <class T>
struct Diagonals {
    index_t rows, before;
    unsigned cols, stored, mirrored;
    std::int64_t pitch;
    typename Dia<T>::Bits padding;
    Mirror<T> mirror;
};

template <class T>
Diagonals<T> diagonals_of(const Dia<T>& dia) {
    return {.rows = dia.rows,
            .before = 0,
            .cols = static_cast<unsigned>(dia.cols),
            .stored = static_cast<unsigned>(dia.diagonals()),
            .mirrored = 0,
            .pitch = dia.pitch,
            .padding = dia.padding,
            .mirror = Mirror<T>(false)};
}

// Diagonals of a matrix. The first `mirrored` ones are mirror images if kMirrors; otherwise there are none.
template <class T, bool kMirrors>
struct DiagonalRows {
    Diagonals<T> matrix;
    index_t first_col;
    const index_t* __restrict__ offsets;
    const T* __restrict__ values;

    SPMVGPU_ON_DEVICE unsigned mirrored() const { return kMirrors ? matrix.mirrored : 0; }
    SPMVGPU_ON_DEVICE unsigned diagonals() const { return mirrored() + matrix.stored; }
    SPMVGPU_ON_DEVICE index_t offset(unsigned k) const {
        return k < mirrored() ? -offsets[matrix.stored - 1 - k] : offsets[k - mirrored()];
    }
    // The slots of diagonal k, which has this offset, from a row on, if its columns are inside the matrix.
    SPMVGPU_ON_DEVICE const T* slots(unsigned k, index_t offset, std::int64_t row) const {
        if (k < mirrored()) return values + (matrix.stored - 1 - k) * matrix.pitch + (row + offset);
        return values + (k - mirrored()) * matrix.pitch + row;
    }
    SPMVGPU_ON_DEVICE index_t column(unsigned at) const {
        return static_cast<index_t>(at) + (kMirrors ? first_col : 0);
    }
    SPMVGPU_ON_DEVICE bool is_padding(T stored) const { return Dia<T>::bits(stored) == matrix.padding; }
    SPMVGPU_ON_DEVICE T value(unsigned k, T stored) const { return k < mirrored() ? matrix.mirror(stored) : stored; }

    SPMVGPU_ON_DEVICE Row row(index_t r) const {
        return {std::int64_t(r) + (kMirrors ? matrix.before : 0), diagonals()};
    }
    SPMVGPU_ON_DEVICE index_t number(index_t r) const { return r; }
    SPMVGPU_ON_DEVICE void load(const Row& row, unsigned k, index_t& col, T& value) const {
        const index_t distance = offset(k);
        // Unsigned: exact up to 2^32, and a column left of the matrix comes out beyond any cols.
        const unsigned at = static_cast<unsigned>(row.begin) + distance;
        if (at >= matrix.cols) return;
        const T found = gpu::load(slots(k, distance, row.begin));
        value = this->value(k, found);
        if (!is_padding(found)) col = column(at);
    }
};
template <class T>
DiagonalRows<T, false> rows_of(const Dia<T>& dia) {
    return {diagonals_of(dia), 0, dia.offsets.data(), dia.values.data()};
}

}  // namespace spmvgpu::gpu
