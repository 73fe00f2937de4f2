#include <cuda_pipeline.h>

#include "core/dispatch.hpp"
#include "formats/bsell/rows.hpp"
#include "formats/columns.cuh"

namespace spmvgpu {

namespace {

using namespace gpu;

constexpr int kBsellBlockSize = 128, kBsellWarps = kBsellBlockSize / kWarp;

// Some slots of the block rows of a warp, from `lane` of a slice on, one after the other in shared memory.
template <class T, int kBlock, int kBlockRows>
struct Stage {
    static constexpr int kSlotBytes = kBlockRows * (kBlock * kBlock * sizeof(T) + sizeof(std::uint16_t));
    static constexpr int kMostBytes = 2048;
    static constexpr int kSlots = kSlotBytes * 8 <= kMostBytes   ? 8
                                  : kSlotBytes * 4 <= kMostBytes ? 4
                                  : kSlotBytes * 2 <= kMostBytes ? 2
                                                                 : 1;

    alignas(16) T values[kSlots * kBlock * kBlock][kBlockRows];
    alignas(16) std::uint16_t near_cols[kSlots][kBlockRows];
    index_t bases[kSlots];

    // Begins to copy the slots from `slot` on that are below `end`. Entries of a slot and of the next one lie at equal
    // distances.
    __device__ void copy(const BsellRows<T>& rows, index_t slot, index_t end, index_t lane) {
        constexpr int kBytes = 16;  // of a copy
        constexpr int kPart = kBytes / sizeof(T), kParts = kBlockRows / kPart;
        constexpr int kNearPart = kBlockRows < 8 ? kBlockRows : 8, kNearParts = kBlockRows / kNearPart;
        const int thread = threadIdx.x % kWarp, slots = end - slot < kSlots ? end - slot : kSlots;
        const T* const from = rows.values + entry_offset(slot, kBlock, 0, 0) + lane;
        for (int i = thread; i < slots * kBlock * kBlock * kParts; i += kWarp) {
            const int entry = i / kParts, first = i % kParts * kPart;
            __pipeline_memcpy_async(&values[entry][first], from + std::int64_t(entry) * kSliceLanes + first, kBytes);
        }
        if (thread < slots * kNearParts) {
            const int i = thread / kNearParts, first = thread % kNearParts * kNearPart;
            const std::int64_t place = std::int64_t(slot + i) * kSliceLanes + lane + first;
            __pipeline_memcpy_async(&near_cols[i][first], rows.columns.near_cols + place, kNearPart * 2);
        }
        if (thread < slots) __pipeline_memcpy_async(&bases[thread], rows.columns.bases + slot + thread, 4);
    }
};

// A group takes a block row: a block has one column, and its rows of x are read once for all of its rows. The matrix
// comes through shared memory, where the next slots arrive while the current ones are multiplied.
template <class Shape, int kBlock, class T>
__global__ void __launch_bounds__(kBsellBlockSize)
    bsell_columns_group_per_block_row(BsellRows<T> rows, index_t block_rows, int rounds, Product<T> product) {
    constexpr int kBlockRows = kWarp / Shape::kGroup;  // of one warp, in one slice
    using Slots = Stage<T, kBlock, kBlockRows>;
    // Elements of x that a lane reads.
    constexpr int kElements = kBlock * Shape::kPerLane, kMostElements = 64 / sizeof(T);
    constexpr int kMostTogether = kElements * 4 <= kMostElements ? 4 : kElements * 2 <= kMostElements ? 2 : 1;
    constexpr int kTogether = kMostTogether < Slots::kSlots ? kMostTogether : Slots::kSlots;
    __shared__ alignas(16) unsigned char memory[kBsellWarps * 2 * sizeof(Slots)];
    Slots* const stages = reinterpret_cast<Slots*>(memory) + threadIdx.x / kWarp * 2;
    const int group = threadIdx.x % kWarp / Shape::kGroup;
    const ColumnReader<Shape, T> x(product);
    for (int round = 0; round < rounds; ++round) {
        const std::int64_t first =
            ((std::int64_t(blockIdx.x) * rounds + round) * kBsellWarps + threadIdx.x / kWarp) * kBlockRows;
        if (first >= block_rows) return;  // the whole warp
        const auto slice = static_cast<index_t>(first / kSliceLanes), lane = static_cast<index_t>(first % kSliceLanes);
        const index_t begin = rows.slice_offsets[slice] / kSliceLanes,
                      end = rows.slice_offsets[slice + 1] / kSliceLanes;
        T sums[kBlock][Shape::kPerLane] = {};
        int now = 0;
        for (int i = 0; i < 2; ++i) {
            stages[i].copy(rows, begin + i * Slots::kSlots, end, lane);
            __pipeline_commit();
        }
        for (index_t slot = begin; slot < end; slot += Slots::kSlots, now ^= 1) {
            __pipeline_wait_prior(1);
            __syncwarp();
            const Slots& staged = stages[now];
#pragma unroll
            for (int s = 0; s < Slots::kSlots; s += kTogether) {
                index_t block_cols[kTogether];
                T gathered[kTogether][kBlock][Shape::kPerLane];
#pragma unroll
                for (int i = 0; i < kTogether; ++i) {
                    block_cols[i] = -1;
                    if (slot + s + i >= end) continue;
                    const index_t base = staged.bases[s + i];
                    const std::uint16_t distance = staged.near_cols[s + i][group];
                    if (base < 0) {
                        block_cols[i] = rows.columns.far_cols[std::int64_t(~base) * kSliceLanes + lane + group];
                    } else if (distance != Bsell<T>::kPadding) {
                        block_cols[i] = base + distance;
                    }
                    if (block_cols[i] < 0) continue;
#pragma unroll
                    for (int c = 0; c < kBlock; ++c) x.load(block_cols[i] * kBlock + c, gathered[i][c]);
                }
#pragma unroll
                for (int i = 0; i < kTogether; ++i) {
                    if (block_cols[i] < 0) continue;
#pragma unroll
                    for (int c = 0; c < kBlock; ++c) {
#pragma unroll
                        for (int r = 0; r < kBlock; ++r) {
                            const T factor = load(&staged.values[((s + i) * kBlock + r) * kBlock + c][group]);
#pragma unroll
                            for (int j = 0; j < Shape::kPerLane; ++j) sums[r][j] += factor * gathered[i][c][j];
                        }
                    }
                }
            }
            __syncwarp();  // all have read the memory that is overwritten
            stages[now].copy(rows, slot + 2 * Slots::kSlots, end, lane);
            __pipeline_commit();
        }
        const std::int64_t place = first + group;
        if (place >= block_rows) continue;
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
            constexpr int kLanes = std::min(Shape::kColumns / Shape::kVector, 8);
            using Own = ColumnShape<1, kLanes, Shape::kColumns / kLanes, Shape::kVector>;
            dispatch<1, 2, 3, 4, 6>("block", block, [&]<int kBlock>() {
                launch_in_rounds(bsell_columns_group_per_block_row<Own, kBlock, T>, "bsell_columns_group_per_block_row",
                                 kBsellBlockSize / Own::kGroup, stored, block_rows(), part, stream, kBsellBlockSize);
            });
        } else {
            launch_group_per_rows<Shape, 1>(stored, rows, part, stream);
        }
    });
}

#define INSTANTIATE(T) template void Bsell<T>::multiply_columns_cuda(const Product<T>&, Stream) const;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
