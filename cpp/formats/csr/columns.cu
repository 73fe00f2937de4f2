#include "formats/columns.cuh"
#include "formats/csr/rows.hpp"

namespace spmvgpu {

namespace {

using namespace gpu;

constexpr int kEntryLanes = 4;              // if a group takes a row
constexpr int kChunks = kColumnsBlockSize;  // chunks of a piece
constexpr int kParts = 8;                   // parts of the segments of a row, which are added up at the same time

template <class T>
struct TilePlan {
    const Tile* tiles;
    const RowSpan* spans;
    T* segment_sums;     // scratch: kMaxColumns partial sums a segment of a cut row
    unsigned* arrivals;  // scratch: finished segments of each cut row; zero before and after every product
};

// The block of a tile goes through a list of items: the entries of every row, and behind them the row's end.
//
//     rows      [ a b c ] [ ] [ d e f g h i j ] [ k ]
//     items       a b c | | d e f g h i j | k |
//     chunks      0 0 0 0 0 1 1 1 1 1 2 2 2 2 2            kChunkItems = 5
//
// Chunks have equal lengths, whatever the rows are, so no group of lanes waits for another. A row that ends in the
// chunk in which it began is stored at once. For any other row, each chunk leaves its sum as a carry; the chunk with
// the row's end adds up the carries, in their order, and its own sum. The begins of chunks depend on the tile alone,
// and not on the number of columns, and so do the bits. The length is odd, so that entries of neighbouring chunks lie
// in different banks of the shared memory.
template <class T>
constexpr int kChunkItems = sizeof(T) > 8 ? 5 : 9;

// The items that are in shared memory at once: a tile has several pieces.
template <class Shape, class T>
struct Piece {
    static constexpr int kItems = kChunks * kChunkItems<T>;

    alignas(16) T values[kItems];
    alignas(16) T carries[Shape::kPerLane][kColumnsBlockSize];
    alignas(16) T running[2][Shape::kColumns];  // carry of a row that began before the round; for this one and the next
    index_t cols[kItems];
    std::uint16_t row_ends[kItems];  // counted in entries of the piece; at most kItems
    std::uint16_t first_rows[kChunks + 1];
    static_assert(kItems <= UINT16_MAX);
};

// How many rows end among the first `item` items.
__device__ inline int rows_before(const std::uint16_t* row_ends, int rows, int entries, int item) {
    int low = max(0, item - entries), high = min(item, rows);
    while (low < high) {
        const int middle = (low + high) / 2;
        if (row_ends[middle] < item - middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

// Calls finish(row, sums) for each row of the tile, and for row 0 where it is a segment of one. All threads must call.
template <class Shape, class T, class Finish>
__device__ __forceinline__ void multiply_tile(const CsrRows<T>& rows, const Tile& tile, const ColumnReader<Shape, T>& x,
                                              Piece<Shape, T>& piece, const Finish& finish) {
    constexpr int kItems = Piece<Shape, T>::kItems, kLength = kChunkItems<T>, kPerLane = Shape::kPerLane;
    constexpr int kGroups = kColumnsBlockSize / Shape::kGroup, kRounds = kChunks / kGroups;
    constexpr int kInFlight = 128 / (kPerLane * sizeof(T));  // entries, with up to 128 bytes of x per lane
    static_assert(Shape::kEntryLanes == 1 && kInFlight > 0);
    const bool is_segment = tile.rows == 0;
    const int all_rows = is_segment ? 1 : tile.rows, all_entries = tile.nonzeros;
    const int group = threadIdx.x / Shape::kGroup;
    bool is_open = false;  // true if the first row of the piece began in the piece before
    int turn = 0;          // the place of `running` for this round
    for (int rows_done = 0, entries_done = 0; rows_done + entries_done < all_rows + all_entries;) {
        const int row_count = min(all_rows - rows_done, kItems), entry_count = min(all_entries - entries_done, kItems);
        const int items = min(all_rows - rows_done + all_entries - entries_done, kItems);
        const index_t first_entry = tile.nz_begin + entries_done;
        for (int r = threadIdx.x; r < row_count; r += kColumnsBlockSize) {
            const index_t end =
                is_segment ? tile.nz_begin + all_entries : rows.row_offsets[tile.row_begin + rows_done + r + 1];
            piece.row_ends[r] = static_cast<std::uint16_t>(min(end - first_entry, kItems));
        }
        for (int k = threadIdx.x; k < entry_count; k += kColumnsBlockSize) {
            piece.cols[k] = load_once(rows.col_indices + first_entry + k);
            store(piece.values + k, load_once(rows.values + first_entry + k));
        }
        __syncthreads();
        for (int chunk = threadIdx.x; chunk <= kChunks; chunk += kColumnsBlockSize) {
            const int row = rows_before(piece.row_ends, row_count, entry_count, min(chunk * kLength, items));
            piece.first_rows[chunk] = static_cast<std::uint16_t>(row);
        }
        __syncthreads();
        // The item with which a row begins; -1 if that was in an earlier piece.
        const auto start_of = [&](int row) { return row > 0 ? piece.row_ends[row - 1] + row : is_open ? -1 : 0; };
        for (int round = 0; round < kRounds && round * kGroups * kLength < items; ++round) {
            const int first_chunk = round * kGroups, chunk = first_chunk + group;
            const int begin = min(chunk * kLength, items), end = min(begin + kLength, items);
            const int row_end = piece.first_rows[chunk + 1], entry_end = end - row_end;
            int row = piece.first_rows[chunk], crossing_row = -1;
            bool crosses = start_of(row) < begin;  // true if `row` began in an earlier chunk
            T sums[kPerLane] = {}, crossing_sums[kPerLane] = {};
            const auto end_row = [&] {
                if (crosses) {
                    crosses = false;
                    crossing_row = row;
#pragma unroll
                    for (int c = 0; c < kPerLane; ++c) crossing_sums[c] = sums[c];
                } else {
                    finish(rows_done + row, sums);
                }
#pragma unroll
                for (int c = 0; c < kPerLane; ++c) sums[c] = T(0);
                ++row;
            };
            for (int k = begin - row; k < entry_end; k += kInFlight) {
                T gathered[kInFlight][kPerLane];
#pragma unroll
                for (int i = 0; i < kInFlight; ++i) {
                    if (k + i < entry_end) x.load(piece.cols[k + i], gathered[i]);
                }
#pragma unroll
                for (int i = 0; i < kInFlight; ++i) {
                    if (k + i >= entry_end) continue;
                    while (piece.row_ends[row] <= k + i) end_row();
                    const T factor = gpu::load(piece.values + k + i);
#pragma unroll
                    for (int c = 0; c < kPerLane; ++c) sums[c] += factor * gathered[i][c];
                }
            }
            while (row < row_end) end_row();
#pragma unroll
            for (int c = 0; c < kPerLane; ++c) store(&piece.carries[c][threadIdx.x], sums[c]);
            __syncthreads();
            // The sum of the carries of a row, from the chunk in which it began to the one before end_chunk.
            const auto carried = [&](int its_row, int end_chunk, T(&sum)[kPerLane]) {
                const int start = start_of(its_row);
                int next = first_chunk;
                const bool is_older = start < first_chunk * kLength;
                if (!is_older) next = start / kLength;
#pragma unroll
                for (int c = 0; c < kPerLane; ++c) {
                    sum[c] = is_older ? gpu::load(&piece.running[turn][Shape::column(c)]) : T(0);
                }
#pragma unroll 4
                for (; next < end_chunk; ++next) {
                    const int lane = (next - first_chunk) * Shape::kGroup + Shape::column_lane();
#pragma unroll
                    for (int c = 0; c < kPerLane; ++c) sum[c] += gpu::load(&piece.carries[c][lane]);
                }
            };
            T whole[kPerLane];
            if (crossing_row >= 0) {
                carried(crossing_row, chunk, whole);
#pragma unroll
                for (int c = 0; c < kPerLane; ++c) whole[c] += crossing_sums[c];
                finish(rows_done + crossing_row, whole);
            }
            if (group == kGroups - 1 && start_of(row) < end) {
                carried(row, chunk + 1, whole);
#pragma unroll
                for (int c = 0; c < kPerLane; ++c) store(&piece.running[1 - turn][Shape::column(c)], whole[c]);
            }
            turn = 1 - turn;
            __syncthreads();
        }
        const int rows_here = piece.first_rows[kChunks], entries_here = items - rows_here;
        is_open = rows_here > 0 ? piece.row_ends[rows_here - 1] < entries_here : is_open || entries_here > 0;
        rows_done += rows_here;
        entries_done += entries_here;
        __syncthreads();  // before the next piece
    }
}

// The block that finishes a row's last outstanding segment adds up all of them, always in the same order.
template <class T>
__device__ void add_segments(const TilePlan<T>& plan, const Tile& tile, const Product<T>& product,
                             T (*parts)[kMaxColumns]) {
    __shared__ bool last_arrival;
    static_assert(kParts * kMaxColumns == kColumnsBlockSize);
    __threadfence();  // after the stores of this thread, and before the barrier that precedes the arrival
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
    if (threadIdx.x == 0) plan.arrivals[tile.row_begin] = 0;
    if (static_cast<index_t>(threadIdx.x) >= product.columns) return;
    T sum = 0;
    for (int i = 0; i < kParts; ++i) sum += parts[i][threadIdx.x];
    T* const y =
        product.y + product.row_of_y(span.row) * product.y_strides.row + threadIdx.x * product.y_strides.column;
    const T added = scaled(product.alpha, sum);
    store(y, product.beta == T(0) ? added : added + scaled(product.beta, gpu::load(y)));
}

// Blocks to keep on a multiprocessor, limited by registers, so that some of them gather while others load their
// entries. A lane has sums, carries and some elements of x for each of its columns, and separate addresses for each of
// them unless it loads vectors.
template <class Shape, class T>
constexpr int kBlocksToHold = Shape::kVector > 1                  ? 3
                              : Shape::kPerLane * sizeof(T) <= 64 ? 2
                                                                  : 1;

template <class Shape, class T>
__global__ void __launch_bounds__(kColumnsBlockSize, kBlocksToHold<Shape, T>)
    csr_columns_block_per_tile(CsrRows<T> rows, TilePlan<T> plan, Product<T> product) {
    extern __shared__ double2 dynamic_memory[];  // aligned for every T
    auto& piece = *reinterpret_cast<Piece<Shape, T>*>(dynamic_memory);
    const Tile tile = plan.tiles[blockIdx.x];
    const ColumnReader<Shape, T> x(product);
    multiply_tile(rows, tile, x, piece, [&](int row, const T(&sums)[Shape::kPerLane]) {
        if (tile.rows > 0) return store_columns<Shape>(product, tile.row_begin + row, 0, sums);
#pragma unroll
        for (int c = 0; c < Shape::kPerLane; ++c) {
            store(plan.segment_sums + std::int64_t(tile.note) * kMaxColumns + Shape::column(c), sums[c]);
        }
    });
    // The tile no longer needs its piece, which add_segments() reuses after a barrier.
    static_assert(sizeof(piece.values) >= kParts * kMaxColumns * sizeof(T));
    if (tile.rows == 0) add_segments(plan, tile, product, reinterpret_cast<T(*)[kMaxColumns]>(piece.values));
}

template <class T>
void multiply_tiles(const Csr<T>& csr, const CsrRows<T>& rows, const Product<T>& product, Stream stream) {
    auto* const sums = static_cast<T*>(product.scratch);
    const TilePlan<T> plan{csr.tiles.data(), csr.spans.data(), sums,
                           reinterpret_cast<unsigned*>(sums + std::size_t(csr.segments) * Csr<T>::kScratchPerSegment)};
    for_column_blocks<1>(product, [&]<class Shape>(const Product<T>& part) {
        const auto kernel = csr_columns_block_per_tile<Shape, T>;
        constexpr int kBytes = sizeof(Piece<Shape, T>);
        allow_shared_bytes(kernel, kBytes);
        kernel<<<static_cast<unsigned>(csr.tiles.size()), kColumnsBlockSize, kBytes, native(stream)>>>(rows, plan,
                                                                                                       part);
        check_launch("csr_columns_block_per_tile");
    });
}

}  // namespace

// Rows that share their columns are faster together than tile by tile, and usually have similar lengths; but no row may
// be so long that it is cut.
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
#undef INSTANTIATE

}  // namespace spmvgpu
