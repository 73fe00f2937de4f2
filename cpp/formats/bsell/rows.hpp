#pragma once

#include <cstdint>

#include "core/passes/divisor.hpp"
#include "formats/bsell/layout.hpp"
#include "formats/rows.hpp"

namespace spmvgpu::gpu {

// Rows of blocks. Entry k of a row is in the column k % block of the k / block-th block of its block row.
template <class T>
struct BsellRows {
    unsigned block;
    Divisor divisor;  // by the block
    const index_t* __restrict__ slice_offsets;
    BlockColumns columns;
    const T* __restrict__ values;
    const index_t* __restrict__ permutation;

    SPMVGPU_ON_DEVICE unsigned over_block(unsigned number) const { return divisor.quotient(number); }
    // `begin` has the first slot, the row within its block row and the lane in it: (slot * block + row) * 32 + lane.
    SPMVGPU_ON_DEVICE Row row(index_t r) const {
        const auto place = over_block(r), lane = place % kSliceLanes, slice = place / kSliceLanes;
        const unsigned begin = slice_offsets[slice] / kSliceLanes, end = slice_offsets[slice + 1] / kSliceLanes;
        return {(std::int64_t(begin) * block + (r - place * block)) * kSliceLanes + lane, (end - begin) * block};
    }
    SPMVGPU_ON_DEVICE index_t number(index_t r) const {
        if (permutation == nullptr) return r;
        const unsigned place = over_block(r);
        return permutation[place] * block + (r - place * block);
    }
    SPMVGPU_ON_DEVICE void load(const Row& row, unsigned k, index_t& col, T& value) const {
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

}  // namespace spmvgpu::gpu
