// Runs of neighbouring rows with entries in the same columns, as finite elements with several unknowns a node have
// them.
#pragma once

#include <vector>

#include "core/types.hpp"

namespace spmvgpu {

struct Pattern {
    index_t rows;
    const index_t* row_offsets;
    const index_t* col_indices;
};

// The rows cut into groups of at most `size` neighbours whose columns are all the same.
struct RowGroups {
    int size = 1;
    std::vector<index_t> begins;  // length groups + 1: first row of each

    index_t count() const { return static_cast<index_t>(begins.size()) - 1; }
};

constexpr int kMaxRowGroup = 3;

// With size 0, the size that takes least memory where an entry of a whole group takes index_bytes + size * value_bytes.
RowGroups group_rows(const Pattern& pattern, int size, int value_bytes, int index_bytes);

}  // namespace spmvgpu
