// Planning for formats that cut the non-zeros into parts of equal size without regard to rows.
#pragma once

#include <algorithm>

#include "core/array.hpp"
#include "core/host_vector.hpp"
#include "core/parallel.hpp"

namespace spmvgpu {

// A row that several parts of the work contribute to; their partial sums are added in order.
struct RowSpan {
    index_t row;
    index_t first, last;  // partial sums [first, last] belong to the row
};

// Rows of the first and of the last non-zero of a part.
struct RowBound {
    index_t first, last;
};

inline index_t count_parts(index_t nnz, index_t part) { return nnz / part + (nnz % part != 0); }

// The row of an entry is the last one that begins at or before it.
inline index_t row_of_entry(const Array<index_t>& row_offsets, index_t entry) {
    const auto* const after = std::upper_bound(row_offsets.begin(), row_offsets.end(), entry);
    return static_cast<index_t>(after - row_offsets.begin()) - 1;
}

// The bounds of parts of `part` non-zeros each; the last one may have fewer.
inline Array<RowBound> find_bounds(const Array<index_t>& row_offsets, index_t nnz, index_t part) {
    Array<RowBound> bounds(count_parts(nnz, part));
    constexpr std::int64_t kNanosecondsPerSearch = 200;
    const auto count = static_cast<index_t>(bounds.size());
    parallel_for(count, 2 * kNanosecondsPerSearch * count, [&](index_t p) {
        const index_t begin = p * part;
        bounds[p] = {row_of_entry(row_offsets, begin),
                     row_of_entry(row_offsets, begin + std::min(part, nnz - begin) - 1)};
    });
    return bounds;
}

// The rows that two or more consecutive parts share.
inline HostVector<RowSpan> find_spans(const Array<RowBound>& bounds) {
    HostVector<RowSpan> spans;
    for (std::size_t b = 1; b < bounds.size(); ++b) {
        const auto p = static_cast<index_t>(b);
        const index_t row = bounds[b].first;
        if (bounds[b - 1].last != row) continue;
        if (!spans.empty() && spans.back().row == row) {
            spans.back().last = p;
        } else {
            spans.push_back({row, p - 1, p});
        }
    }
    return spans;
}

}  // namespace spmvgpu
