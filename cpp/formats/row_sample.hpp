// Facts about a matrix from a few hundred rows, and what formats conclude from them; planning/row_sample.hpp takes the
// sample.
#pragma once

#include <limits>
#include <string>

#include "core/types.hpp"

namespace spmvgpu {

// A sample of runs of neighbouring rows that are spread over the matrix.
struct RowSample {
    index_t rows = 0, cols = 0, nnz = 0;  // sizes of the whole matrix
    int item_bytes = 8;

    double alike = 0;   // share of rows with the values of the next row, at the same distances from the diagonal
    double uneven = 0;  // share of rows whose next row has another length; 0 if one row in all is long

    // The largest of these sizes of dense blocks that the rows may consist of, or 1.
    static constexpr index_t kBlocks[] = {6, 4, 3, 2};
    index_t block = 1;

    // Diagonals that the sampled entries lie on, a lower bound for the matrix. They are counted up to this many times
    // the entries of a row.
    static constexpr double kFewDiagonals = 3;
    bool has_few_diagonals = false;
    index_t diagonals = 0;

    double mean() const { return rows > 0 ? double(nnz) / rows : 0; }
    double csr_bytes() const { return double(nnz) * (item_bytes + sizeof(index_t)) + double(rows) * sizeof(index_t); }
};

// The predicted time of a product on the CPU in a format, if the matrix is like its sample, and the highest numbers of
// slots and of reads of x by index for which this holds.
struct Promise {
    double share = 1;  // share of the time in csr
    std::string reason;
    double most_slots = std::numeric_limits<double>::infinity(), most_gathers = most_slots;
};

}  // namespace spmvgpu
