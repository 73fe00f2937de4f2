// Features of a matrix for the performance model, known before it is planned; planning/features.hpp extracts them.
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

    // Rows with more than kPerLane entries for each of their lanes, for blocks with 2, 4 or 8 entries for each thread.
    // A row has as many lanes as its block has threads for it, a power of two up to a warp, and neighbouring rows share
    // a block.
    static constexpr index_t kPerLane = 16;
    static constexpr int lanes(index_t rows, index_t threads) {
        int lanes = kWarp;
        while (lanes > 1 && rows * lanes > threads) lanes /= 2;
        return lanes;
    }
    static constexpr int kBlockCounts = 3;
    std::array<double, kBlockCounts> longer{};

    // Distinct 32-byte sectors of x per entry, in runs of this many consecutive entries: the traffic from the L2, if
    // the L1 keeps the reads of a thread block, and from memory, if the L2 keeps the reads of all blocks for a while.
    static constexpr index_t kRun = 1 << 12, kLongRun = 1 << 19;
    // Small matrices depend on neither.
    static constexpr index_t kSmall = 1 << 17;
    double run_sectors = 0, long_run_sectors = 0;

    // Entries for each column that is read where up to kNodeRows neighbouring rows with equal columns share it; from a
    // sample of rows.
    static constexpr index_t kNodeRows = 8, kNodeSample = 1024;
    double node_rows = 1;

    // Distinct diagonals that the first entries of a few rows lie on: a lower bound.
    static constexpr index_t kFewRows = 48, kDiagonalEntries = 64;
    index_t diagonals = 0;

    // Number of these rows that differ, by the values of their first entries and their distances from the main
    // diagonal, and number of distinct values in a sample.
    static constexpr index_t kRowEntries = 16, kFewValues = 256;
    index_t different_rows = 0, different_values = 0;
};

}  // namespace spmvgpu
