#include "cuda/columns.cuh"

namespace spmvgpu {

namespace {

using namespace cuda;

constexpr int kNeighbours = 4;  // rows of a group; the pitch is a multiple of it
constexpr int kBatch = 2;       // diagonals side by side whose values and rows of x are under way at the same time

// A group per kNeighbours rows, which lie in neighbouring rows of x on each diagonal. On the next diagonal to the right
// they all move on by one, so that only one row of x is new: diagonals come in runs, of three in the grids of
// differences and of more with several unknowns at a node. A batch of kBatch diagonals of a run uses a window of x;
// what it shares with the batch before stays where it is, in registers.
template <class Shape, class T>
__global__ void __launch_bounds__(kColumnsBlockSize)
    dia_columns_group_per_rows(DiaRows<T> dia, index_t row_count, int rounds, Product<T> product) {
    constexpr int kRowsPerRound = kColumnsBlockSize / Shape::kGroup * kNeighbours, kShared = kNeighbours - 1;
    const ColumnReader<Shape, T> x(product);
    for (int round = 0; round < rounds; ++round) {
        const std::int64_t begin = (std::int64_t(blockIdx.x) * rounds + round) * kRowsPerRound;
        const std::int64_t first_row = begin + threadIdx.x / Shape::kGroup * kNeighbours;
        if (first_row >= row_count) return;
        T sums[kNeighbours][Shape::kPerLane] = {}, window[kShared + kBatch][Shape::kPerLane] = {};
        index_t next_of_run = 0;  // the diagonal that would go on with the run of the batch before, if that was full
        bool was_full = false;
        for (unsigned d = 0; d < dia.diagonals;) {
            const index_t offset = dia.offsets[d];
            const bool is_full = d + 1 < dia.diagonals && dia.offsets[d + 1] == offset + 1;
            const bool goes_on = was_full && offset == next_of_run;
            const int batch = is_full ? kBatch : 1;
            T factors[kBatch][kNeighbours];
#pragma unroll
            for (int i = 0; i < kBatch; ++i) {
                const T* const values = dia.values + (d + i) * dia.pitch + first_row;
#pragma unroll
                for (int r = 0; r < kNeighbours; ++r) factors[i][r] = i < batch ? cuda::load(values + r) : T(0);
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
                const unsigned col = static_cast<unsigned>(first_row + r) + offset;
                const bool is_new = r < kShared + batch && (r >= kShared || !goes_on);
                if (is_new && col < dia.cols) x.load(static_cast<index_t>(col), window[r]);
            }
#pragma unroll
            for (int i = 0; i < kBatch; ++i) {
                if (i >= batch) break;
#pragma unroll
                for (int r = 0; r < kNeighbours; ++r) {
                    const bool is_inside = static_cast<unsigned>(first_row + r) + offset + i < dia.cols;
                    if (!is_inside || dia.is_padding(factors[i][r])) continue;
#pragma unroll
                    for (int c = 0; c < Shape::kPerLane; ++c) sums[r][c] += factors[i][r] * window[i + r][c];
                }
            }
            d += batch;
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

}  // namespace

template <class T>
void Dia<T>::multiply_columns_cuda(const Product<T>& product, Stream stream) const {
    if (rows == 0) return;
    const DiaRows<T> stored = rows_of(*this);
    for_column_blocks<1>(product, [&]<class Shape>(const Product<T>& part) {
        // With fewer columns a lane would read rows of x that lie far from those of its neighbour.
        if constexpr (Shape::kVector > 1 && Shape::kColumnLanes >= 2) {
            launch_in_rounds(dia_columns_group_per_rows<Shape, T>, "dia_columns_group_per_rows",
                             kColumnsBlockSize / Shape::kGroup * kNeighbours, stored, rows, part, stream);
        } else {
            launch_group_per_rows<Shape, 1>(stored, rows, part, stream);
        }
    });
}

#define INSTANTIATE(T) template void Dia<T>::multiply_columns_cuda(const Product<T>&, Stream) const;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)

}  // namespace spmvgpu
