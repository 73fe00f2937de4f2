// What a few hundred rows say of a matrix, and what formats make of it; planning/row_sample.hpp takes the sample.
#pragma once

#include <limits>
#include <string>

#include "core/types.hpp"

namespace spmvgpu {

// Of runs of neighbouring rows that are spread over the matrix.
struct RowSample {
    index_t rows = 0, cols = 0, nnz = 0;  // of the matrix
    int item_bytes = 8;                   // of a value

    double alike = 0;   // share of rows with the values of the next row, at the same distances from the diagonal
    double uneven = 0;  // share of rows that are not as long as the next row; 0 if one row of all is long

    // The largest of these sizes of dense blocks that the rows may consist of, or 1.
    static constexpr index_t kBlocks[] = {6, 4, 3, 2};
    index_t block = 1;

    // Diagonals that their entries lie on: there are no fewer in the matrix. They are counted as long as they are few,
    // which is so many times the entries of a row.
    static constexpr double kFewDiagonals = 3;
    bool has_few_diagonals = false;
    index_t diagonals = 0;

    double mean() const { return rows > 0 ? double(nnz) / rows : 0; }
    double csr_bytes() const { return double(nnz) * (item_bytes + sizeof(index_t)) + double(rows) * sizeof(index_t); }
};

// What a product on the CPU takes in a format, if the matrix is like its sample: if it then stores so many slots, and
// reads x by index so many times, at most.
struct Promise {
    double share = 1;  // of the time in csr
    std::string reason;
    double most_slots = std::numeric_limits<double>::infinity(), most_gathers = most_slots;
};

}  // namespace spmvgpu
