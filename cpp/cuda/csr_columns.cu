#include "cuda/columns.cuh"

namespace spmvgpu {

namespace {

using namespace cuda;

constexpr int kEntryLanes = 4;
constexpr int kParts = 8;                       // of a long row: groups of lanes that share its entries
constexpr unsigned kLongRow = 512;              // from how many entries on
constexpr int kMostLongRows = 4096 / kLongRow;  // in a tile, which has no more entries

// What the kernel of tiles reads beside the rows.
template <class T>
struct TilePlan {
    const Tile* tiles;
    const RowSpan* spans;
    T* segment_sums;     // scratch: kMaxColumns partial sums a segment of a cut row
    unsigned* arrivals;  // scratch: segments of each cut row that are done; zero before and after every product
};

template <class T>
using Parts = T[kParts][kMaxColumns];

// The sum of a column's partial sums, for the column that is the calling thread's number.
template <class T>
__device__ T sum_parts(const Parts<T>& parts) {
    T sum = 0;
    if (threadIdx.x < kMaxColumns) {
        for (int part = 0; part < kParts; ++part) sum += parts[part][threadIdx.x];
    }
    return sum;
}

// The sums of a long row, or of a segment of one, by the first kParts groups of a block; each thread below the number
// of columns gets that of one column. All threads must call.
template <class Shape, class T>
__device__ T sum_long_row(const CsrRows<T>& rows, Row row, const ColumnReader<Shape, T>& x, Parts<T>& parts) {
    const int part = threadIdx.x / Shape::kGroup;
    const Row own[1] = {part < kParts ? row : Row{}};
    T sums[1][Shape::kPerLane] = {};
    add_rows<Shape>(rows, own, part * kEntryLanes + Shape::entry_lane(), kParts * kEntryLanes, x, sums);
    const int first = reduce_entry_lanes<Shape>(sums[0]);
    if (part < kParts) {
        for (int i = 0; i < Shape::kResults; ++i) parts[part][Shape::column(first + i)] = sums[0][i];
    }
    __syncthreads();
    const T sum = sum_parts(parts);
    __syncthreads();  // before the next row's parts
    return sum;
}

template <class T>
__device__ void store_column(const Product<T>& product, index_t row, T sum) {
    const auto column = static_cast<index_t>(threadIdx.x);
    if (column >= product.columns) return;
    T* const y = product.y + product.row_of_y(row) * product.y_strides.row + column * product.y_strides.column;
    const T added = scaled(product.alpha, sum);
    store(y, product.beta == T(0) ? added : added + scaled(product.beta, cuda::load(y)));
}

// The block that finishes a row's last outstanding segment adds up all of them, always in the same order.
template <class Shape, class T>
__device__ void multiply_segment(const CsrRows<T>& rows, const TilePlan<T>& plan, const Tile& tile,
                                 const ColumnReader<Shape, T>& x, Parts<T>& parts, const Product<T>& product) {
    __shared__ bool last_arrival;
    const T sum = sum_long_row(rows, {tile.nz_begin, tile.nonzeros}, x, parts);
    if (threadIdx.x < static_cast<unsigned>(product.columns)) {
        store(plan.segment_sums + std::int64_t(tile.note) * kMaxColumns + threadIdx.x, sum);
        __threadfence();
    }
    __syncthreads();
    const RowSpan span = plan.spans[tile.row_begin];
    if (threadIdx.x == 0) {
        last_arrival = atomicAdd(plan.arrivals + tile.row_begin, 1u) == static_cast<unsigned>(span.last - span.first);
    }
    __syncthreads();
    if (!last_arrival) return;
    __threadfence();
    const int part = threadIdx.x / kMaxColumns, column = threadIdx.x % kMaxColumns;
    T own = 0;
    if (column < product.columns) {
        for (std::int64_t i = span.first + part; i <= span.last; i += kParts) {
            own += load_shared_result(plan.segment_sums + i * kMaxColumns + column);
        }
    }
    parts[part][column] = own;
    __syncthreads();
    store_column(product, span.row, sum_parts(parts));
    if (threadIdx.x == 0) plan.arrivals[tile.row_begin] = 0;
}
static_assert(kParts * kMaxColumns == kColumnsBlockSize);

// A block per tile, and in it a group of lanes per row; all groups together take rows that are long.
template <class Shape, class T>
__global__ void __launch_bounds__(kColumnsBlockSize)
    csr_columns_block_per_tile(CsrRows<T> rows, TilePlan<T> plan, Product<T> product) {
    constexpr int kGroups = kColumnsBlockSize / Shape::kGroup;
    static_assert(kGroups >= kParts);
    __shared__ Parts<T> parts;
    __shared__ index_t long_rows[kMostLongRows];
    __shared__ int long_row_count;
    const Tile tile = plan.tiles[blockIdx.x];
    const ColumnReader<Shape, T> x(product);
    if (tile.rows == 0) return multiply_segment(rows, plan, tile, x, parts, product);

    if (threadIdx.x == 0) long_row_count = 0;
    __syncthreads();
    for (int begin = 0; begin < tile.rows; begin += kGroups) {
        const int r = begin + threadIdx.x / Shape::kGroup;
        bool stores = r < tile.rows;
        Row row[1];
        if (stores) row[0] = rows.row(tile.row_begin + r);
        if (row[0].count > kLongRow) {
            if (threadIdx.x % Shape::kGroup == 0) long_rows[atomicAdd(&long_row_count, 1)] = tile.row_begin + r;
            row[0].count = 0;
            stores = false;
        }
        T sums[1][Shape::kPerLane] = {};
        add_rows<Shape>(rows, row, Shape::entry_lane(), kEntryLanes, x, sums);
        const int first = reduce_entry_lanes<Shape>(sums[0]);
        if (stores) store_columns<Shape>(product, tile.row_begin + r, first, sums[0]);
    }
    __syncthreads();
    for (int i = 0; i < long_row_count; ++i) {  // in any order: rows do not meet
        const T sum = sum_long_row(rows, rows.row(long_rows[i]), x, parts);
        store_column(product, long_rows[i], sum);
    }
}

template <class T>
void multiply_tiles(const Csr<T>& csr, const CsrRows<T>& rows, const Product<T>& product, Stream stream) {
    auto* const sums = static_cast<T*>(product.scratch);
    const TilePlan<T> plan{csr.tiles.data(), csr.spans.data(), sums,
                           reinterpret_cast<unsigned*>(sums + std::size_t(csr.segments) * kMaxColumns)};
    for_column_blocks<kEntryLanes>(product, [&]<class Shape>(const Product<T>& part) {
        csr_columns_block_per_tile<Shape>
            <<<static_cast<unsigned>(csr.tiles.size()), kColumnsBlockSize, 0, native(stream)>>>(rows, plan, part);
        check_launch("csr_columns_block_per_tile");
    });
}

}  // namespace

// Rows that share their columns are faster together than tile by tile, and even as a rule; but none must be so long
// that it is cut.
template <class T>
void Csr<T>::multiply_columns_cuda(const Product<T>& product, Stream stream) const {
    if (rows == 0) return;
    const CsrRows<T> stored = rows_of(*this);
    const bool by_tiles = tiles.size() > 0 && (node_rows == 1 || spans.size() > 0);
    if (by_tiles) return multiply_tiles(*this, stored, product, stream);
    launch_columns<kEntryLanes>(stored, rows, node_rows, product, stream);
}

#define INSTANTIATE(T) template void Csr<T>::multiply_columns_cuda(const Product<T>&, Stream) const;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)

}  // namespace spmvgpu
