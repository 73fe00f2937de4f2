#include "core/dispatch.hpp"
#include "cuda/columns.cuh"

namespace spmvgpu {

namespace {

using namespace cuda;

// A group per block row: a block has one column, and its rows of x are read once for all of its rows. Blocks of a row
// follow each other; where the next one is has been asked for before this one is multiplied.
template <class Shape, int kBlock, class T>
__global__ void __launch_bounds__(kColumnsBlockSize)
    bsell_columns_group_per_block_row(BsellRows<T> rows, index_t block_rows, int rounds, Product<T> product) {
    constexpr int kRowsPerRound = kColumnsBlockSize / Shape::kGroup;
    const ColumnReader<Shape, T> x(product);
    for (int round = 0; round < rounds; ++round) {
        const std::int64_t place =
            (std::int64_t(blockIdx.x) * rounds + round) * kRowsPerRound + threadIdx.x / Shape::kGroup;
        if (place >= block_rows) return;
        const auto slice = static_cast<index_t>(place / kSliceLanes), lane = static_cast<index_t>(place % kSliceLanes);
        const index_t end = rows.slice_offsets[slice + 1] / kSliceLanes;
        index_t slot = rows.slice_offsets[slice] / kSliceLanes;
        T sums[kBlock][Shape::kPerLane] = {};
        index_t next = slot < end ? rows.columns.at(slot, lane) : -1;
        for (; slot < end; ++slot) {
            const index_t block_col = next;
            if (slot + 1 < end) next = rows.columns.at(slot + 1, lane);
            if (block_col < 0) continue;
#pragma unroll
            for (int c = 0; c < kBlock; ++c) {
                T gathered[Shape::kPerLane], factors[kBlock];
                x.load(block_col * kBlock + c, gathered);
#pragma unroll
                for (int r = 0; r < kBlock; ++r) {
                    factors[r] = load(rows.values + entry_offset(slot, kBlock, r, c) + lane);
                }
#pragma unroll
                for (int r = 0; r < kBlock; ++r) {
#pragma unroll
                    for (int i = 0; i < Shape::kPerLane; ++i) sums[r][i] += factors[r] * gathered[i];
                }
            }
        }
        const index_t row = (rows.permutation != nullptr ? rows.permutation[place] : place) * kBlock;
#pragma unroll
        for (int r = 0; r < kBlock; ++r) store_columns<Shape>(product, row + r, 0, sums[r]);
    }
}

}  // namespace

template <class T>
void Bsell<T>::multiply_columns_cuda(const Product<T>& product, Stream stream) const {
    if (rows == 0) return;
    const BsellRows<T> stored = rows_of(*this);
    for_column_blocks<1>(product, [&]<class Shape>(const Product<T>& part) {
        if constexpr (Shape::kVector > 1) {
            dispatch<1, 2, 3, 4, 6>("block", block, [&]<int kBlock>() {
                launch_in_rounds(bsell_columns_group_per_block_row<Shape, kBlock, T>,
                                 "bsell_columns_group_per_block_row", kColumnsBlockSize / Shape::kGroup, stored,
                                 block_rows(), part, stream);
            });
        } else {
            launch_group_per_rows<Shape, 1>(stored, rows, part, stream);
        }
    });
}

#define INSTANTIATE(T) template void Bsell<T>::multiply_columns_cuda(const Product<T>&, Stream) const;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)

}  // namespace spmvgpu
