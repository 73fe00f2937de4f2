// The rows of the formats that have rows, as kernels read them that are written once for all of these formats.
#pragma once

#include <bit>
#include <cstdint>

#include "core/passes/divisor.hpp"
#include "core/types.hpp"
#include "formats/bsell/layout.hpp"
#include "formats/csr/layout.hpp"
#include "formats/dia/layout.hpp"
#include "formats/papers/ellpack_r/layout.hpp"
#include "formats/papers/ellr_t/layout.hpp"
#include "formats/sell/layout.hpp"
#include "formats/shared/diagonals.cuh"
#include "formats/stencil/layout.hpp"
#include "gpu/cuda/warp.cuh"

namespace spmvgpu::gpu {

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
        value = gpu::load(values + row.begin + k);
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
        value = gpu::load(values + slot);
    }
};
template <class T>
SellRows<T> rows_of(const Sell<T>& sell) {
    return {sell.slice_offsets.data(), sell.col_indices.data(), sell.values.data(), sell.permutation.data()};
}

// Rows of blocks. Entry k of a row is in the column k % block of the k / block-th block of its block row.
template <class T>
struct BsellRows {
    unsigned block;
    Divisor divisor;  // by the block
    const index_t* __restrict__ slice_offsets;
    BlockColumns columns;
    const T* __restrict__ values;
    const index_t* __restrict__ permutation;

    __device__ unsigned over_block(unsigned number) const { return divisor.quotient(number); }
    // `begin` has the first slot, the row within its block row and the lane in it: (slot * block + row) * 32 + lane.
    __device__ Row row(index_t r) const {
        const auto place = over_block(r), lane = place % kSliceLanes, slice = place / kSliceLanes;
        const unsigned begin = slice_offsets[slice] / kSliceLanes, end = slice_offsets[slice + 1] / kSliceLanes;
        return {(std::int64_t(begin) * block + (r - place * block)) * kSliceLanes + lane, (end - begin) * block};
    }
    __device__ index_t number(index_t r) const {
        if (permutation == nullptr) return r;
        const unsigned place = over_block(r);
        return permutation[place] * block + (r - place * block);
    }
    __device__ void load(const Row& row, unsigned k, index_t& col, T& value) const {
        const auto first = static_cast<unsigned>(row.begin / kSliceLanes), slot = over_block(first);
        const unsigned lane = row.begin % kSliceLanes, block_of_row = over_block(k), c = k - block_of_row * block;
        const index_t block_col = columns.at(slot + block_of_row, lane);
        value = gpu::load(values + entry_offset(slot + block_of_row, block, first - slot * block, c) + lane);
        if (block_col >= 0) col = block_col * block + c;
    }
};
template <class T>
BsellRows<T> rows_of(const Bsell<T>& bsell) {
    const auto block = static_cast<unsigned>(bsell.block);
    return {block,
            Divisor(block),
            bsell.slice_offsets.data(),
            columns_of(bsell),
            bsell.values.data(),
            bsell.permutation.size() > 0 ? bsell.permutation.data() : nullptr};
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
        value = gpu::load(values + slot);
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

// Diagonals of a matrix, of which the first `mirrored` ones are mirror images where kMirrors; else there are none.
template <class T, bool kMirrors>
struct DiagonalRows {
    Diagonals<T> matrix;
    index_t first_col;
    const index_t* __restrict__ offsets;
    const T* __restrict__ values;

    __device__ unsigned mirrored() const { return kMirrors ? matrix.mirrored : 0; }
    __device__ unsigned diagonals() const { return mirrored() + matrix.stored; }
    __device__ index_t offset(unsigned k) const {
        return k < mirrored() ? -offsets[matrix.stored - 1 - k] : offsets[k - mirrored()];
    }
    // Slots of diagonal k, which has this offset, from a row on. There are some where its columns are of the matrix.
    __device__ const T* slots(unsigned k, index_t offset, std::int64_t row) const {
        if (k < mirrored()) return values + (matrix.stored - 1 - k) * matrix.pitch + (row + offset);
        return values + (k - mirrored()) * matrix.pitch + row;
    }
    __device__ index_t column(unsigned at) const { return static_cast<index_t>(at) + (kMirrors ? first_col : 0); }
    __device__ bool is_padding(T stored) const { return Dia<T>::bits(stored) == matrix.padding; }
    __device__ T value(unsigned k, T stored) const { return k < mirrored() ? matrix.mirror(stored) : stored; }

    __device__ Row row(index_t r) const { return {std::int64_t(r) + (kMirrors ? matrix.before : 0), diagonals()}; }
    __device__ index_t number(index_t r) const { return r; }
    __device__ void load(const Row& row, unsigned k, index_t& col, T& value) const {
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
template <class T>
DiagonalRows<T, true> rows_of(const Sdia<T>& sdia) {
    return {diagonals_of(sdia), sdia.first_col, sdia.upper.offsets.data(), sdia.upper.values.data()};
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
        value = gpu::load(values + own.begin + k);
    }
};
template <class T>
StencilRows<T> rows_of(const Stencil<T>& stencil) {
    return {stencil.kinds.data(), reinterpret_cast<const RowKind*>(stencil.stencils.data()), stencil.masks.data(),
            stencil.offsets.data(), stencil.values.data()};
}

}  // namespace spmvgpu::gpu
