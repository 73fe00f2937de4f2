#include "cuda/columns.cuh"

namespace spmvgpu {

namespace {

using namespace cuda;

constexpr int kNeighbours = 4;  // rows of a group; the pitch is a multiple of it

// A group per kNeighbours rows, which lie in neighbouring rows of x on each diagonal. On the next diagonal to the right
// they all move on by one, so that only one row of x is new: diagonals come in runs, of three in the grids of
// differences and of more with several unknowns at a node.
template <class Shape, class T>
__global__ void __launch_bounds__(kColumnsBlockSize)
    dia_columns_group_per_rows(DiaRows<T> dia, index_t row_count, int rounds, Product<T> product) {
    constexpr int kRowsPerRound = kColumnsBlockSize / Shape::kGroup * kNeighbours;
    const ColumnReader<Shape, T> x(product);
    for (int round = 0; round < rounds; ++round) {
        const std::int64_t begin = (std::int64_t(blockIdx.x) * rounds + round) * kRowsPerRound;
        const std::int64_t first_row = begin + threadIdx.x / Shape::kGroup * kNeighbours;
        if (first_row >= row_count) return;
        T sums[kNeighbours][Shape::kPerLane] = {}, window[kNeighbours][Shape::kPerLane] = {};
        const auto fill = [&](int r, index_t offset) {
            const unsigned col = static_cast<unsigned>(first_row + r) + offset;
            if (col < dia.cols) x.load(static_cast<index_t>(col), window[r]);
        };
        index_t offset_before = 0;
        for (unsigned d = 0; d < dia.diagonals; ++d) {
            const index_t offset = dia.offsets[d];
            T factors[kNeighbours];
            const T* const values = dia.values + d * dia.pitch + first_row;
#pragma unroll
            for (int r = 0; r < kNeighbours; ++r) factors[r] = cuda::load(values + r);
            if (d > 0 && offset == offset_before + 1) {
#pragma unroll
                for (int r = 0; r + 1 < kNeighbours; ++r) {
#pragma unroll
                    for (int c = 0; c < Shape::kPerLane; ++c) window[r][c] = window[r + 1][c];
                }
                fill(kNeighbours - 1, offset);
            } else {
#pragma unroll
                for (int r = 0; r < kNeighbours; ++r) fill(r, offset);
            }
            offset_before = offset;
#pragma unroll
            for (int r = 0; r < kNeighbours; ++r) {
                const bool is_inside = static_cast<unsigned>(first_row + r) + offset < dia.cols;
                if (!is_inside || dia.is_padding(factors[r])) continue;
#pragma unroll
                for (int c = 0; c < Shape::kPerLane; ++c) sums[r][c] += factors[r] * window[r][c];
            }
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
        // With few columns a lane would read rows of x that lie far from those of its neighbour.
        if constexpr (Shape::kVector > 1 && Shape::kColumnLanes >= 4) {
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
