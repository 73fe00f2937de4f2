// Products with several columns of the formats that store diagonals.
#pragma once

#include "formats/columns.cuh"
#include "formats/dia/rows.hpp"

namespace spmvgpu::gpu {

constexpr int kNeighbours = 4;  // rows of a group; the pitch is a multiple of it
constexpr int kBatch = 2;       // neighbouring diagonals whose values and rows of x are loaded at the same time

// A group takes kNeighbours rows, which lie in neighbouring rows of x on each diagonal. On the next diagonal to the
// right they all move on by one, so that only one row of x is new. Diagonals come in runs, of three in finite
// difference grids and of more with several unknowns at a node. A batch of kBatch diagonals of a run uses a window of
// x; the part that it shares with the batch before stays in registers.
template <class Shape, bool kMirrors, class T>
__global__ void __launch_bounds__(kColumnsBlockSize)
    diagonals_columns_group_per_rows(DiagonalRows<T, kMirrors> stored, index_t row_count, int rounds,
                                     Product<T> product) {
    constexpr int kRowsPerRound = kColumnsBlockSize / Shape::kGroup * kNeighbours, kShared = kNeighbours - 1;
    const ColumnReader<Shape, T> x(product);
    for (int round = 0; round < rounds; ++round) {
        const std::int64_t begin = (std::int64_t(blockIdx.x) * rounds + round) * kRowsPerRound;
        const std::int64_t first_row = begin + threadIdx.x / Shape::kGroup * kNeighbours;
        if (first_row >= row_count) return;
        const std::int64_t place = first_row + (kMirrors ? stored.matrix.before : 0);
        T sums[kNeighbours][Shape::kPerLane] = {}, window[kShared + kBatch][Shape::kPerLane] = {};
        index_t next_of_run = 0;  // the diagonal that would continue the run of the batch before, if that was full
        bool was_full = false;
        for (unsigned k = 0; k < stored.diagonals();) {
            const index_t offset = stored.offset(k);
            const bool is_full = k + 1 < stored.diagonals() && stored.offset(k + 1) == offset + 1;
            const bool goes_on = was_full && offset == next_of_run;
            const int batch = is_full ? kBatch : 1;
            T factors[kBatch][kNeighbours];
#pragma unroll
            for (int i = 0; i < kBatch; ++i) {
                const T* const slots = stored.slots(k + i, offset + i, place);
#pragma unroll
                for (int r = 0; r < kNeighbours; ++r) {
                    const bool is_slot = !kMirrors || (first_row + r < row_count && place + r + offset + i >= 0);
                    factors[i][r] = i < batch && is_slot ? load(slots + r) : T(0);
                }
            }
            if (goes_on) {
#pragma unroll
                for (int r = 0; r < kShared; ++r) {
#pragma unroll
                    for (int c = 0; c < Shape::kPerLane; ++c) window[r][c] = window[r + kBatch][c];
                }
            }
#pragma unroll
            for (int r = 0; r < kShared + kBatch; ++r) {
                const unsigned col = static_cast<unsigned>(place + r) + offset;
                const bool is_new = r < kShared + batch && (r >= kShared || !goes_on);
                if (is_new && col < stored.matrix.cols) x.load(stored.column(col), window[r]);
            }
#pragma unroll
            for (int i = 0; i < kBatch; ++i) {
                if (i >= batch) break;
#pragma unroll
                for (int r = 0; r < kNeighbours; ++r) {
                    const bool is_inside = static_cast<unsigned>(place + r) + offset + i < stored.matrix.cols;
                    if (!is_inside || stored.is_padding(factors[i][r])) continue;
                    const T factor = stored.value(k + i, factors[i][r]);
#pragma unroll
                    for (int c = 0; c < Shape::kPerLane; ++c) sums[r][c] += factor * window[i + r][c];
                }
            }
            k += batch;
            next_of_run = offset + batch;
            was_full = is_full;
        }
#pragma unroll
        for (int r = 0; r < kNeighbours; ++r) {
            if (first_row + r < row_count) {
                store_columns<Shape>(product, static_cast<index_t>(first_row + r), 0, sums[r]);
            }
        }
    }
}

template <bool kMirrors, class T>
void launch_diagonals_columns(const DiagonalRows<T, kMirrors>& stored, index_t rows, const Product<T>& product,
                              Stream stream) {
    if (rows == 0) return;
    for_column_blocks<1>(product, [&]<class Shape>(const Product<T>& part) {
        // With fewer columns a lane would read rows of x that lie far from its neighbour's.
        if constexpr (Shape::kVector > 1 && Shape::kColumnLanes >= 2) {
            launch_in_rounds(diagonals_columns_group_per_rows<Shape, kMirrors, T>, "diagonals_columns_group_per_rows",
                             kColumnsBlockSize / Shape::kGroup * kNeighbours, stored, rows, part, stream);
        } else {
            launch_group_per_rows<Shape, 1>(stored, rows, part, stream);
        }
    });
}

}  // namespace spmvgpu::gpu
