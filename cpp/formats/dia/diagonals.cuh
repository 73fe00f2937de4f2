// The product of the formats that store diagonals, of the whole matrix or of half of a symmetric one.
#pragma once

#include <bit>
#include <cstdint>

#include "formats/dia/rows.hpp"
#include "gpu/cuda/warp.cuh"

namespace spmvgpu::gpu {

// Mirror images of diagonals: whether there are any, and when they are read. Half a million rows are processed at once,
// and other rows need as mirror images what these read of a diagonal in place. If diagonals are few, the L2 keeps the
// values until then, and a row can be added up in the order of its columns. If they are many it does not, unless both
// are read in turn: otherwise the matrix crosses the memory twice (27 points in three dimensions, several unknowns at a
// node).
enum class Mirrors { kNone, kFirst, kInTurn };
constexpr unsigned kFewMirrored = 3;

// A warp has kRows * 32 rows, each of its lanes every 32nd, so the place of a diagonal is computed once for all of
// them. kAtOnce diagonals are in flight; no index stands between a thread and its loads. x is read where a diagonal
// lies inside the matrix, not where its slot holds a value: that would make every read of x wait for one of values.
template <class T, int kRows, int kAtOnce, Mirrors kMirrors>
__global__ void multiply_diagonals(const Diagonals<T> matrix, const index_t* __restrict__ offsets,
                                   const T* __restrict__ values, const Product<T> product) {
    const std::int64_t thread = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    // First of the lane's rows, followed by every 32nd.
    const std::int64_t own_row = thread / kWarp * (kWarp * kRows) + thread % kWarp;
    const std::int64_t row = own_row + matrix.before;
    const unsigned count = own_row < matrix.rows ? matrix.mirrored + matrix.stored : 0;
    const auto is_row = [&](int j) { return j == 0 || own_row + j * kWarp < matrix.rows; };
    const Keeping keeping(product.policy);
    const unsigned has_main = matrix.stored - matrix.mirrored;  // 1 if the first stored diagonal has no mirror image
    const auto is_mirror = [&](unsigned k) {
        return kMirrors == Mirrors::kInTurn ? k % 2 == has_main : kMirrors == Mirrors::kFirst && k < matrix.mirrored;
    };
    const auto diagonal = [&](unsigned k) {
        if (kMirrors == Mirrors::kInTurn) return (k + has_main) / 2;
        return is_mirror(k) ? matrix.stored - 1 - k : k - (kMirrors == Mirrors::kFirst ? matrix.mirrored : 0);
    };
    T sums[kRows] = {};
    wait_for_kernel_before();
    for (unsigned begin = 0; begin < count; begin += kAtOnce) {
        T factors[kAtOnce][kRows], gathered[kAtOnce][kRows];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
            const unsigned k = begin + i;
#pragma unroll
            for (int j = 0; j < kRows; ++j) {
                factors[i][j] = T(std::bit_cast<Real<T>>(matrix.padding));
                gathered[i][j] = T(0);
            }
            const unsigned d = diagonal(k);
            if (is_mirror(k) && k < count) {
                const std::int64_t col = row - offsets[d];
                const T* const slots = values + (d * matrix.pitch + col);
#pragma unroll
                for (int j = 0; j < kRows; ++j) {
                    if (col + j * kWarp < 0 || !is_row(j)) continue;
                    factors[i][j] = keeping.load_once(slots + j * kWarp);
                    gathered[i][j] = load(product.x + col + j * kWarp);
                }
            } else if (k < count) {
                // Unsigned: exact up to 2^32, and a column left of the matrix comes out beyond any cols.
                const unsigned col = static_cast<unsigned>(row) + offsets[d];
                const T* const slots = values + (d * matrix.pitch + row);
                const T* const x = product.x + (row + offsets[d]);
#pragma unroll
                for (int j = 0; j < kRows; ++j) {
                    if (col + j * kWarp >= matrix.cols || !is_row(j)) continue;
                    factors[i][j] =
                        kMirrors != Mirrors::kNone ? load(slots + j * kWarp) : keeping.load_once(slots + j * kWarp);
                    gathered[i][j] = load(x + j * kWarp);
                }
            }
        }
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
#pragma unroll
            for (int j = 0; j < kRows; ++j) {
                if (Dia<T>::bits(factors[i][j]) == matrix.padding) continue;
                sums[j] += (is_mirror(begin + i) ? matrix.mirror(factors[i][j]) : factors[i][j]) * gathered[i][j];
            }
        }
    }
#pragma unroll
    for (int j = 0; j < kRows; ++j) store_rows(product, own_row + j * kWarp, matrix.rows, sums[j]);
}

// A thread has several rows of a large matrix. A GPU begins no more than a block or so in a nanosecond, and few
// diagonals with one row a thread take no longer: 13.3 us for 1.3 M rows of doubles on one diagonal, whose bytes take
// 7. In single precision instructions count as well: a 5-point grid of 9 M rows took 86 us in sdia with one row a
// thread, and its bytes take 43.
template <bool kMirrors, class T>
void launch_diagonals(const Diagonals<T>& matrix, const index_t* offsets, const T* values, const Product<T>& product,
                      int block_size, Stream stream) {
    constexpr index_t kLarge = 1 << 18;  // as many rows keep the processors busy with a quarter of the threads
    constexpr int kRows = sizeof(T) == 4 ? 4 : sizeof(T) == 8 ? 2 : 1;
    constexpr int kAtOnce = kRows == 1 ? 8 : 4;
    const bool is_large = matrix.rows >= kLarge;
    const unsigned blocks = blocks_for(matrix.rows, block_size * (is_large ? kRows : 1));
    const auto launch = [&]<Mirrors kWhen>() {
        launch_early(is_large ? multiply_diagonals<T, kRows, kAtOnce, kWhen> : multiply_diagonals<T, 1, 8, kWhen>,
                     {blocks, static_cast<unsigned>(block_size)}, stream, matrix, offsets, values, product);
    };
    if constexpr (kMirrors) {
        if (matrix.mirrored > kFewMirrored) return launch.template operator()<Mirrors::kInTurn>();
        launch.template operator()<Mirrors::kFirst>();
    } else {
        launch.template operator()<Mirrors::kNone>();
    }
}

}  // namespace spmvgpu::gpu
