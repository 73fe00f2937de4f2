// Which columns the rows of a matrix reach.
#pragma once

#include <cstdint>

namespace spmvgpu {

struct ColumnReach {
    std::int64_t first, end;  // the columns of all entries lie from `first` to before `end`
    std::int64_t low, high;   // the diagonals of all entries, column minus row, lie from `low` to `high`
};

// The reach of a canonical matrix; all zeros if it has no entries.
template <class Index>
ColumnReach column_reach(std::int64_t rows, const Index* row_offsets, const Index* col_indices);

}  // namespace spmvgpu
