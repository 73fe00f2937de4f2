// Bounds of parts, for formats that cut the non-zeros into parts of equal size without regard to rows.
#pragma once

#include "core/types.hpp"

namespace spmvgpu {

// A row that several parts of the work contribute to; their partial sums are added in order.
struct RowSpan {
    index_t row;
    index_t first, last;  // partial sums [first, last] belong to the row
};

struct RowBound {
    index_t first, last;
};

inline index_t count_parts(index_t nnz, index_t part) { return nnz / part + (nnz % part != 0); }

}  // namespace spmvgpu
