// Facts about a matrix from a few hundred rows, and what formats conclude from them; planning/row_sample.hpp takes the
// sample.
#pragma once

#include <algorithm>
#include <limits>
#include <string>

#include "core/types.hpp"

namespace spmvgpu {

// A sample of runs of neighbouring rows that are spread over the matrix.
struct RowSample {
    index_t rows = 0, cols = 0, nnz = 0;  // sizes of the whole matrix
    int item_bytes = 8;

    double alike = 0;     // share of rows with the values of the next row, at the same distances from the diagonal
    double uneven = 0;    // share of rows whose next row has another length, unless the lengths repeat
    index_t longest = 0;  // entries of the longest row of all
    int threads = 1;      // that share a product

    // The largest of these sizes of dense blocks that the rows may consist of, or 1.
    static constexpr index_t kBlocks[] = {6, 4, 3, 2};
    index_t block = 1;

    // Diagonals that the sampled entries lie on, a lower bound for the matrix. They are counted up to this many times
    // the entries of a row.
    static constexpr double kFewDiagonals = 3;
    bool has_few_diagonals = false;
    index_t diagonals = 0;

    // Rows whose end the CPU mispredicts in csr, because the next row has another length. A branch predictor learns the
    // ends of some thousand rows by heart.
    double mispredicted() const {
        constexpr double kLearnt = 16'000;
        return uneven * rows > kLearnt ? uneven * rows : 0;
    }

    // Returns true if a row is long, and a slice of 32 rows of blocks of its length is more than half a thread's share
    // of the entries. One thread multiplies the slice while the others wait.
    bool has_long_slice(index_t block_rows) const {
        constexpr double kLong = 4, kLanes = 32, kShare = 0.5;
        const bool is_long = double(longest) * rows > kLong * nnz;
        return is_long && kLanes * block_rows * longest * std::max(threads, 2) > kShare * nnz;
    }

    // The time of a product in csr, in units of an entry's: a misprediction takes as long as a dozen entries.
    double csr_time() const {
        constexpr double kOfMisprediction = 12;
        return double(nnz) + rows + kOfMisprediction * mispredicted();
    }
};

// The predicted time of a product on the CPU in a format, if the matrix is like its sample, and the highest numbers of
// slots and of reads of x by index for which this holds.
struct Promise {
    // A format that needs no more than this share of the time in csr is worth a conversion: predictions err by as much.
    static constexpr double kWorthwhile = 0.87;

    double share = 1;  // share of the time in csr
    std::string reason;
    double most_slots = std::numeric_limits<double>::infinity(), most_gathers = most_slots;
};

}  // namespace spmvgpu
