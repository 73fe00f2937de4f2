// The rows of the formats that have rows, as kernels read them that are written once for all of these formats.
#pragma once

#include <bit>
#include <cstdint>

#include "core/types.hpp"
#include "cuda/warp.cuh"
#include "formats/csr.hpp"
#include "formats/dia.hpp"
#include "formats/ellpack_r.hpp"
#include "formats/ellr_t.hpp"
#include "formats/sell.hpp"
#include "formats/stencil.hpp"

namespace spmvgpu::cuda {

// A row as the kernels see it. Every format has a type Rows with
//     Row row(index_t r)           the r-th row in stored order
//     index_t number(index_t r)    its number in the matrix
//     load(row, k, col, value)     its entry k; column -1 marks padding, which is skipped
struct Row {
    std::int64_t begin = 0;
    unsigned count = 0;  // entries, with padding
};

template <class T>
struct CsrRows {
    const index_t* __restrict__ row_offsets;
    const index_t* __restrict__ col_indices;
    const T* __restrict__ values;

    __device__ Row row(index_t r) const {
        const index_t begin = row_offsets[r];
        return {begin, static_cast<unsigned>(row_offsets[r + 1] - begin)};
    }
    __device__ index_t number(index_t r) const { return r; }
    __device__ void load(const Row& row, unsigned k, index_t& col, T& value) const {
        col = col_indices[row.begin + k];
        value = cuda::load(values + row.begin + k);
    }
};
template <class T>
CsrRows<T> rows_of(const Csr<T>& csr) {
    return {csr.row_offsets.data(), csr.col_indices.data(), csr.values.data()};
}

template <class T>
struct SellRows {
    const index_t* __restrict__ slice_offsets;
    const index_t* __restrict__ col_indices;
    const T* __restrict__ values;
    const index_t* __restrict__ permutation;

    __device__ Row row(index_t r) const {
        const index_t slice = r / Sell<T>::kSliceRows;
        const index_t begin = slice_offsets[slice], end = slice_offsets[slice + 1];
        return {begin + r % Sell<T>::kSliceRows, static_cast<unsigned>(end - begin) / Sell<T>::kSliceRows};
    }
    __device__ index_t number(index_t r) const { return permutation ? permutation[r] : r; }
    __device__ void load(const Row& row, unsigned k, index_t& col, T& value) const {
        const std::int64_t slot = row.begin + std::int64_t(k) * Sell<T>::kSliceRows;
        col = col_indices[slot];
        value = cuda::load(values + slot);
    }
};
template <class T>
SellRows<T> rows_of(const Sell<T>& sell) {
    return {sell.slice_offsets.data(), sell.col_indices.data(), sell.values.data(), sell.permutation.data()};
}

template <class T>
struct EllRows {
    EllShape shape;
    unsigned threads_shift;  // threads_per_row is a power of two
    const index_t* __restrict__ row_lengths;
    const index_t* __restrict__ col_indices;
    const T* __restrict__ values;

    __device__ Row row(index_t r) const {
        return {std::int64_t(r) << threads_shift,
                static_cast<unsigned>(row_lengths ? row_lengths[r] : shape.width << threads_shift)};
    }
    __device__ index_t number(index_t r) const { return r; }
    __device__ void load(const Row& row, unsigned k, index_t& col, T& value) const {
        const std::int64_t slot =
            row.begin + std::int64_t(k >> threads_shift) * shape.pitch + (k & ((1u << threads_shift) - 1));
        col = col_indices[slot];
        value = cuda::load(values + slot);
    }
};
// Null for row_lengths: every row is as wide as the slots are.
template <class T>
EllRows<T> rows_of(const EllSlots<T>& slots, const index_t* row_lengths) {
    const auto threads = static_cast<unsigned>(slots.shape.threads_per_row);
    return {slots.shape, static_cast<unsigned>(std::countr_zero(threads)), row_lengths, slots.col_indices.data(),
            slots.values.data()};
}
template <class T>
EllRows<T> rows_of(const Ellpack<T>& ell) {
    return rows_of(ell.slots, nullptr);
}
template <class T>
EllRows<T> rows_of(const EllpackR<T>& ell) {
    return rows_of(ell.ell.slots, ell.row_lengths.data());
}
template <class T>
EllRows<T> rows_of(const EllrT<T>& ell) {
    return rows_of(ell.slots, ell.row_lengths.data());
}

template <class T>
struct DiaRows {
    unsigned cols, diagonals;
    std::int64_t pitch;
    typename Dia<T>::Bits padding;
    const index_t* __restrict__ offsets;
    const T* __restrict__ values;

    __device__ bool is_padding(T value) const { return Dia<T>::bits(value) == padding; }
    __device__ Row row(index_t r) const { return {r, diagonals}; }
    __device__ index_t number(index_t r) const { return r; }
    __device__ void load(const Row& row, unsigned k, index_t& col, T& value) const {
        // Unsigned: exact up to 2^32, and a column left of the matrix comes out beyond any cols.
        const unsigned at = static_cast<unsigned>(row.begin) + offsets[k];
        if (at >= cols) return;
        value = cuda::load(values + k * pitch + row.begin);
        if (!is_padding(value)) col = static_cast<index_t>(at);
    }
};
template <class T>
DiaRows<T> rows_of(const Dia<T>& dia) {
    return {static_cast<unsigned>(dia.cols),
            static_cast<unsigned>(dia.diagonals()),
            dia.pitch,
            dia.padding,
            dia.offsets.data(),
            dia.values.data()};
}

template <class T>
struct StencilRows {
    const std::uint16_t* __restrict__ kinds;
    const RowKind* __restrict__ all;
    const Word* __restrict__ masks;
    const index_t* __restrict__ offsets;
    const T* __restrict__ values;

    __device__ RowKind kind(index_t number) const {
        const int4 kind = *reinterpret_cast<const int4*>(all + number);
        return {kind.x, kind.y, kind.z, static_cast<std::uint16_t>(kind.w), static_cast<std::uint16_t>(kind.w >> 16)};
    }
    __device__ Row row(index_t r) const { return {r, static_cast<unsigned>(kind(kinds[r]).length)}; }
    __device__ index_t number(index_t r) const { return r; }
    __device__ void load(const Row& row, unsigned k, index_t& col, T& value) const {
        const RowKind own = kind(kinds[row.begin]);
        if (!own.has_slot(masks, static_cast<index_t>(k))) return;
        col = static_cast<index_t>(row.begin) + offsets[own.begin + k];
        value = cuda::load(values + own.begin + k);
    }
};
template <class T>
StencilRows<T> rows_of(const Stencil<T>& stencil) {
    return {stencil.kinds.data(), reinterpret_cast<const RowKind*>(stencil.stencils.data()), stencil.masks.data(),
            stencil.offsets.data(), stencil.values.data()};
}

}  // namespace spmvgpu::cuda
