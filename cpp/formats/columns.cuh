// Products with several columns on a GPU: kernels that read the matrix once for up to kMaxColumns of them.
//
// A group of lanes takes a row, or a few neighbouring ones. It is a grid of kEntryLanes x kColumnLanes: lanes that
// share the entries of the row among each other, and lanes that share the columns. In row-major x the lanes of a group
// so read a row of x in one go, whatever the columns of the matrix are.
//
//     entries of the row    columns of x and y, kPerLane a lane
//     0  4  8 ...           c0  c1  c2  ...
//     1  5  9 ...           c0  c1  c2  ...        kEntryLanes = 4
//     2  6  ...             c0  c1  c2  ...
//     3  7  ...             c0  c1  c2  ...
//
// A format chooses kEntryLanes for its layout: 4 where the entries of a row are neighbours in memory, 1 where entries
// of neighbouring rows are, or where a group takes some entries of one row or of several (see formats/csr/columns.cu).
// All other parameters depend on the number of columns, and none of them on the order of a sum: a column has the same
// bits whatever the others are, and however x and y lie.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "core/columns.hpp"
#include "core/types.hpp"
#include "formats/rows.hpp"
#include "gpu/cuda/check.hpp"
#include "gpu/cuda/warp.cuh"
#include "gpu/runtime.hpp"

namespace spmvgpu::gpu {

constexpr int kColumnsBlockSize = 256;

// kVector: elements of x, in neighbouring columns, that one load takes; 1 where x and y may lie in any way.
template <int entry_lanes, int column_lanes, int per_lane, int vector>
struct ColumnShape {
    static constexpr int kEntryLanes = entry_lanes, kColumnLanes = column_lanes, kPerLane = per_lane, kVector = vector;
    static constexpr int kGroup = kEntryLanes * kColumnLanes;
    static constexpr int kColumns = kColumnLanes * kPerLane;
    static constexpr int kResults = kPerLane / kEntryLanes;  // sums that a lane stores in the end
    static_assert(kEntryLanes == 1 || kEntryLanes == 4);
    static_assert(kGroup <= kWarp && kPerLane % kEntryLanes == 0 && kPerLane % kVector == 0);

    static __device__ int entry_lane() { return threadIdx.x / kColumnLanes % kEntryLanes; }
    static __device__ int column_lane() { return threadIdx.x % kColumnLanes; }
    // The i-th column of the calling thread: vectors of a group's lanes lie next to each other.
    static __device__ int column(int i) {
        return i / kVector * (kColumnLanes * kVector) + column_lane() * kVector + i % kVector;
    }
};

template <class T, int kCount>
struct alignas(kCount * sizeof(T)) Vector {
    T element[kCount];
};

// Reads the elements of a row of x that belong to the calling thread's columns.
template <class Shape, class T>
class ColumnReader {
public:
    __device__ explicit ColumnReader(const Product<T>& product)
        : x_(product.x + Shape::column(0) * product.x_strides.column),
          row_(product.x_strides.row),
          step_(Shape::kColumnLanes * product.x_strides.column),
          row_bytes_(static_cast<int>(product.x_strides.row * sizeof(T))),
          valid_((product.columns - Shape::column_lane() + Shape::kColumnLanes - 1) / Shape::kColumnLanes) {}

    __device__ __forceinline__ void load(index_t col, T (&to)[Shape::kPerLane]) const {
        if constexpr (Shape::kVector > 1) {
            using Several = Vector<T, Shape::kVector>;
            // One multiplication of two 32-bit numbers: can_use_vectors has checked that row_bytes_ fits.
            const char* const row = reinterpret_cast<const char*>(x_) + std::int64_t(col) * row_bytes_;
#pragma unroll
            for (int i = 0; i < Shape::kPerLane / Shape::kVector; ++i) {
                const Several several = reinterpret_cast<const Several*>(row)[i * Shape::kColumnLanes];
#pragma unroll
                for (int j = 0; j < Shape::kVector; ++j) to[i * Shape::kVector + j] = several.element[j];
            }
        } else {
            const T* const row = x_ + col * row_;
#pragma unroll
            for (int i = 0; i < Shape::kPerLane; ++i) to[i] = i < valid_ ? gpu::load(row + i * step_) : T(0);
        }
    }

private:
    const T* x_;
    std::int64_t row_, step_;
    int row_bytes_;
    int valid_;  // columns of the thread that exist, at most kPerLane
};

// A few entries of kRows rows each, first + i * stride; column -1 where a row has none.
template <int kInFlight, int kRows, class T, class Rows>
struct RowEntries {
    index_t cols[kInFlight][kRows];
    T factors[kInFlight][kRows];

    __device__ __forceinline__ void load(const Rows& rows, const Row (&row)[kRows], unsigned first, unsigned stride) {
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) {
#pragma unroll
            for (int r = 0; r < kRows; ++r) {
                cols[i][r] = -1;
                factors[i][r] = T(0);
                if (first + i * stride < row[r].count) {
                    rows.load(row[r], first + i * stride, cols[i][r], factors[i][r]);
                }
            }
        }
    }
};

// Adds the entries first, first + stride, ... of kRows rows, times the thread's columns of x, to `sums`. An element of
// x that several of the rows use is read once, as for the rows of one node in finite elements with several unknowns.
// Such rows are long, so the next entries are loaded while the thread waits for x.
template <class Shape, int kRows, class T, class Rows>
__device__ __forceinline__ void add_rows(const Rows& rows, const Row (&row)[kRows], unsigned first, unsigned stride,
                                         const ColumnReader<Shape, T>& x, T (&sums)[kRows][Shape::kPerLane]) {
    constexpr bool kLoadsAhead = kRows > 1;
    constexpr int kInFlight = kLoadsAhead ? 2 : 4;
    unsigned longest = 0;
#pragma unroll
    for (int r = 0; r < kRows; ++r) longest = max(longest, row[r].count);
    RowEntries<kInFlight, kRows, T, Rows> now, ahead;
    if constexpr (kLoadsAhead) ahead.load(rows, row, first, stride);
    for (unsigned k = first; k < longest; k += kInFlight * stride) {
        if constexpr (kLoadsAhead) {
            now = ahead;
        } else {
            now.load(rows, row, k, stride);
        }
        T gathered[kInFlight][Shape::kPerLane];
        // A missing entry reads the first row of x, without use: with a condition, the compiler puts these reads one
        // after the other.
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) x.load(max(now.cols[i][0], 0), gathered[i]);
        if constexpr (kLoadsAhead) ahead.load(rows, row, k + kInFlight * stride, stride);
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) {
#pragma unroll
            for (int r = 0; r < kRows; ++r) {
                const index_t col = now.cols[i][r];
                const T factor = now.factors[i][r];
                if (col < 0) continue;
                if (r == 0 || col == now.cols[i][0]) {
#pragma unroll
                    for (int c = 0; c < Shape::kPerLane; ++c) sums[r][c] += factor * gathered[i][c];
                } else {
                    T own[Shape::kPerLane];
                    x.load(col, own);
#pragma unroll
                    for (int c = 0; c < Shape::kPerLane; ++c) sums[r][c] += factor * own[c];
                }
            }
        }
    }
}

// Adds up the sums of the entry lanes of a group. Each lane keeps the sums of kResults of its columns, from the
// returned one on, at the beginning of `sums`. All lanes of the warp must call.
template <class Shape, class T>
__device__ __forceinline__ int reduce_entry_lanes(T (&sums)[Shape::kPerLane]) {
    int first = 0;
    if constexpr (Shape::kEntryLanes > 1) {
        // In each step a lane gives one half of its sums away, and gets the other half of another lane's.
#pragma unroll
        for (int lanes = Shape::kEntryLanes / 2, half = Shape::kPerLane / 2; lanes > 0; lanes /= 2, half /= 2) {
            const bool upper = (Shape::entry_lane() & lanes) != 0;
#pragma unroll
            for (int i = 0; i < half; ++i) {
                const T given = upper ? sums[i] : sums[i + half];
                const T kept = upper ? sums[i + half] : sums[i];
                sums[i] = kept + shuffle_xor(given, lanes * Shape::kColumnLanes);
            }
            if (upper) first += half;
        }
    }
    return first;
}

// y[row] = alpha * sums + beta * y[row] for the columns that the thread keeps, without reading y where beta is zero.
template <class Shape, class T>
__device__ __forceinline__ void store_columns(const Product<T>& product, index_t row, int first,
                                              const T (&sums)[Shape::kPerLane]) {
    T* const y = product.y + product.row_of_y(row) * product.y_strides.row;
    if constexpr (Shape::kVector > 1 && Shape::kEntryLanes == 1) {
        using Several = Vector<T, Shape::kVector>;
#pragma unroll
        for (int i = 0; i < Shape::kResults; i += Shape::kVector) {
            auto& to = *reinterpret_cast<Several*>(y + Shape::column(i));
            Several several{};
            if (product.beta != T(0)) several = to;
#pragma unroll
            for (int j = 0; j < Shape::kVector; ++j) {
                const T added = scaled(product.alpha, sums[i + j]);
                several.element[j] = product.beta == T(0) ? added : added + scaled(product.beta, several.element[j]);
            }
            to = several;
        }
    } else {
#pragma unroll
        for (int i = 0; i < Shape::kResults; ++i) {
            const int column = Shape::column(first + i);
            if (column >= product.columns) continue;
            T* const to = y + column * product.y_strides.column;
            const T added = scaled(product.alpha, sums[i]);
            store(to, product.beta == T(0) ? added : added + scaled(product.beta, gpu::load(to)));
        }
    }
}

// A group takes kRows rows. A block goes through `rounds` times as many neighbouring rows as it has groups for, so that
// elements of x that some rows read are in the L1 for the next. The launch bound for single rows has a minimum number
// of blocks, without which the compiler takes 32 registers, and one gather after another.
template <class Shape, int kRows, class T, class Rows>
__global__ void __launch_bounds__(kColumnsBlockSize, kRows == 1 && Shape::kVector > 1 ? 4 : 1)
    columns_group_per_rows(Rows rows, index_t row_count, int rounds, Product<T> product) {
    constexpr int kRowsPerRound = kColumnsBlockSize / Shape::kGroup * kRows;
    const ColumnReader<Shape, T> x(product);
    for (int round = 0; round < rounds; ++round) {
        const std::int64_t begin = (std::int64_t(blockIdx.x) * rounds + round) * kRowsPerRound;
        if (begin >= row_count) return;  // the whole block
        const std::int64_t first_row = begin + threadIdx.x / Shape::kGroup * kRows;
        Row row[kRows];
        T sums[kRows][Shape::kPerLane] = {};
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            if (first_row + r < row_count) row[r] = rows.row(static_cast<index_t>(first_row + r));
        }
        add_rows<Shape>(rows, row, Shape::entry_lane(), Shape::kEntryLanes, x, sums);
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            const int first = reduce_entry_lanes<Shape>(sums[r]);
            if (first_row + r < row_count) {
                store_columns<Shape>(product, rows.number(static_cast<index_t>(first_row + r)), first, sums[r]);
            }
        }
    }
}

// Returns true if x and y can be accessed in vectors of 16 bytes, and the rows of x addressed as in ColumnReader.
template <class T>
bool can_use_vectors(const Product<T>& product) {
    constexpr int kBytes = 16;
    const auto is_aligned = [](const T* data, std::int64_t row) {
        return reinterpret_cast<std::uintptr_t>(data) % kBytes == 0 && row * sizeof(T) % kBytes == 0;
    };
    return sizeof(T) < kBytes && product.rows_are_contiguous() && is_aligned(product.x, product.x_strides.row) &&
           is_aligned(product.y, product.y_strides.row) &&
           product.x_strides.row <= std::int64_t(INT32_MAX) / static_cast<int>(sizeof(T));
}

// Calls launch.template operator()<Shape>(product) for a product with some columns after the other, at most kMost at
// once, until all are done.
template <int kEntryLanes, int kMost = kMaxColumns, class T, class Launch>
void for_column_blocks(const Product<T>& product, Launch&& launch) {
    constexpr int kVector = sizeof(T) < 16 ? 16 / sizeof(T) : 1;
    for (index_t first = 0, count = 0; first < product.columns; first += count) {
        const index_t rest = std::min<index_t>(product.columns - first, kMost);
        const auto with = [&]<int kColumnLanes, int kPerLane, int kElements>() {
            using Shape = ColumnShape<kEntryLanes, kColumnLanes, kPerLane, kElements>;
            count = rest < Shape::kColumns ? rest : Shape::kColumns;
            launch.template operator()<Shape>(product.part(first, count));
        };
        if (product.x_strides.column != 1) {  // neighbouring columns are far from each other, and sharing is of no use
            if (rest <= 4) {
                with.template operator()<1, 4, 1>();
            } else {
                with.template operator()<1, 8, 1>();
            }
            continue;
        }
        const bool vectors = kVector > 1 && can_use_vectors(product.part(first, rest));
        const auto with_lanes = [&]<int kColumnLanes>() {
            if constexpr (kVector > 1 && kColumnLanes * 4 <= kMost) {
                if (vectors && rest == kColumnLanes * 4) return with.template operator()<kColumnLanes, 4, kVector>();
            }
            if constexpr (kColumnLanes * 4 <= kMost) with.template operator()<kColumnLanes, 4, 1>();
        };
        if (rest > 16) {
            with_lanes.template operator()<8>();
        } else if (rest > 8) {
            with_lanes.template operator()<4>();
        } else if (rest > 4) {
            with_lanes.template operator()<2>();
        } else {
            with_lanes.template operator()<1>();
        }
    }
}

// Launches a kernel in which a round of a block takes `rows` rows.
template <class T, class Rows>
void launch_in_rounds(void (*kernel)(Rows, index_t, int, Product<T>), const char* name, int rows_per_round,
                      const Rows& rows, index_t row_count, const Product<T>& product, Stream stream,
                      int threads = kColumnsBlockSize) {
    constexpr int kBlocksPerProcessor = 16, kMaxRounds = 64;
    int ordinal = 0;
    check(cudaGetDevice(&ordinal), "cudaGetDevice");
    const std::int64_t blocks_wanted = kBlocksPerProcessor * std::int64_t(properties(ordinal).multiprocessors);
    const std::int64_t all_rounds = (std::int64_t(row_count) + rows_per_round - 1) / rows_per_round;
    const auto rounds = static_cast<int>(std::clamp<std::int64_t>(all_rounds / blocks_wanted, 1, kMaxRounds));
    kernel<<<blocks_for(all_rounds, rounds), threads, 0, native(stream)>>>(rows, row_count, rounds, product);
    check_launch(name);
}

template <class Shape, int kRows, class T, class Rows>
void launch_group_per_rows(const Rows& rows, index_t row_count, const Product<T>& product, Stream stream) {
    launch_in_rounds(columns_group_per_rows<Shape, kRows, T, Rows>, "columns_group_per_rows",
                     kColumnsBlockSize / Shape::kGroup * kRows, rows, row_count, product, stream);
}

// Multiplies with the kernel above; `node_rows` neighbouring rows have most of their columns in common.
template <int kEntryLanes, class T, class Rows>
void launch_columns(const Rows& rows, index_t row_count, int node_rows, const Product<T>& product, Stream stream) {
    if (row_count == 0) return;
    for_column_blocks<kEntryLanes>(product, [&]<class Shape>(const Product<T>& part) {
        if constexpr (Shape::kVector > 1) {
            if (node_rows > 1) return launch_group_per_rows<Shape, 3>(rows, row_count, part, stream);
        }
        launch_group_per_rows<Shape, 1>(rows, row_count, part, stream);
    });
}

}  // namespace spmvgpu::gpu
