// Planning for formats that cut the non-zeros into parts of equal size without regard to rows.
#pragma once

#include <algorithm>

#include "core/host_vector.hpp"
#include "formats/csr.hpp"

namespace spmvgpu {

// The row of an entry is the last one that begins at or before it.
inline index_t row_of_entry(const Array<index_t>& row_offsets, index_t entry) {
    const auto* const after = std::upper_bound(row_offsets.begin(), row_offsets.end(), entry);
    return static_cast<index_t>(after - row_offsets.begin()) - 1;
}

// The rows that two or more consecutive parts share; first_row(p) and last_row(p) are the rows of the first and the
// last non-zero of part p.
template <class FirstRow, class LastRow>
HostVector<RowSpan> find_spans(index_t parts, FirstRow first_row, LastRow last_row) {
    HostVector<RowSpan> spans;
    for (index_t p = 1; p < parts; ++p) {
        const index_t row = first_row(p);
        if (last_row(p - 1) != row) continue;
        if (!spans.empty() && spans.back().row == row) {
            spans.back().last = p;
        } else {
            spans.push_back({row, p - 1, p});
        }
    }
    return spans;
}

}  // namespace spmvgpu
