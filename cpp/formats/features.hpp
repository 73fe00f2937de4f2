// What the performance model knows of a matrix before it is planned; planning/features.hpp extracts it.
#pragma once

#include <array>

#include "core/csr_matrix.hpp"
#include "core/passes/bits.hpp"

namespace spmvgpu {

// A canonical matrix in CSR, with values of any type.
struct AnyCsr {
    index_t rows, cols, nnz;
    const index_t *row_offsets, *col_indices;
    const Word* values;
    int item_bytes;
};
template <class T>
AnyCsr any_csr(const CsrMatrix<T>& csr) {
    return {csr.rows,
            csr.cols,
            csr.nnz,
            csr.row_offsets.data(),
            csr.col_indices.data(),
            reinterpret_cast<const Word*>(csr.values.data()),
            sizeof(T)};
}

struct Features {
    static constexpr index_t kWarp = 32;
    static constexpr int kLaneCounts = 6;  // 1, 2, 4, ... 32 lanes a row

    index_t rows = 0, cols = 0, nnz = 0;
    index_t empty_rows = 0;
    index_t longest = 0;   // entries of the longest row
    double mean = 0;       // entries a row
    double deviation = 0;  // standard deviation of the entries a row

    // With 2^i lanes a row and neighbouring rows in a warp: rounds of loads of all warps, each waiting for its longest
    // row. 32 * warp_steps[0] is the slots of ELLPACK-R or of slices in the given order.
    std::array<double, kLaneCounts> warp_steps{};

    // Rows of more than kPerLane entries for each of their lanes, where blocks have 2, 4 or 8 entries for each thread,
    // and a row as many lanes as they leave for it, a power of two up to a warp: neighbouring rows are in a block with
    // those of their warp.
    static constexpr index_t kPerLane = 16;
    static constexpr int lanes(index_t rows, index_t threads) {
        int lanes = kWarp;
        while (lanes > 1 && rows * lanes > threads) lanes /= 2;
        return lanes;
    }
    static constexpr int kBlockCounts = 3;
    std::array<double, kBlockCounts> longer{};

    // Different sectors of x, 32 bytes, per entry, in so many consecutive entries: what comes from the L2, if the L1
    // keeps what a thread block reads, and from memory, if the L2 keeps what all of them read in a while.
    static constexpr index_t kRun = 1 << 12, kLongRun = 1 << 19;
    // Of small matrices neither matters.
    static constexpr index_t kSmall = 1 << 17;
    double run_sectors = 0, long_run_sectors = 0;

    // Different diagonals that the first entries of a few rows lie on: there are no fewer.
    static constexpr index_t kFewRows = 48, kDiagonalEntries = 64;
    index_t diagonals = 0;

    // How many of these rows are different, by the values of their first entries and the distances of these from the
    // main diagonal; and how many of a few values are.
    static constexpr index_t kRowEntries = 16, kFewValues = 256;
    index_t different_rows = 0, different_values = 0;
};

}  // namespace spmvgpu
