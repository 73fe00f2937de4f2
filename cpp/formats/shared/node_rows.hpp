// Neighbouring rows with equal columns, like the rows of one node of a finite element.
#pragma once

#include <limits>

#include "core/passes/passes.hpp"

namespace spmvgpu {

constexpr index_t kAllEntries = std::numeric_limits<index_t>::max();

namespace node_rows {

constexpr index_t kNode = 3;

constexpr index_t length_of(const index_t* row_offsets, index_t row, index_t most) {
    const index_t length = row_offsets[row + 1] - row_offsets[row];
    return length < most ? length : most;
}

// Returns true if a row's first `most` entries have the columns of the row before; an empty row repeats nothing.
constexpr bool repeats(const index_t* row_offsets, const index_t* col_indices, index_t row, index_t most) {
    constexpr index_t kMostCompared = 64;
    const index_t length = length_of(row_offsets, row, most);
    if (length == 0 || length != length_of(row_offsets, row - 1, most)) return false;
    const index_t *const own = col_indices + row_offsets[row], *const before = col_indices + row_offsets[row - 1];
    const index_t compared = length < kMostCompared ? length : kMostCompared;
    for (index_t i = 0; i < compared; ++i) {
        if (own[i] != before[i]) return false;
    }
    return true;
}

}  // namespace node_rows

// The number of neighbouring rows, from the first, that most rows share their columns with: 3 for elements with three
// unknowns at a node, or 6; otherwise 1. It comes from a sample of rows, and callers gain from it but must not rely on
// it. The first `most` entries of a row count.
template <class Passes>
int find_node_rows(Passes& passes, index_t rows, const index_t* row_offsets, const index_t* col_indices,
                   index_t most = kAllEntries) {
    constexpr index_t kSample = 1024;
    constexpr std::int64_t kNanosecondsPerNode = 200;
    const index_t nodes = rows / node_rows::kNode;
    const std::int64_t step = nodes < kSample ? 1 : nodes / kSample;
    const std::int64_t looked_at = (nodes + step - 1) / step;
    const auto found = passes.template reduce<std::int64_t>(
        looked_at,
        [=] SPMVGPU_BODY(std::int64_t i) {
            const auto row = static_cast<index_t>(i * step * node_rows::kNode);
            return node_rows::repeats(row_offsets, col_indices, row + 1, most) &&
                   node_rows::repeats(row_offsets, col_indices, row + 2, most);
        },
        kNanosecondsPerNode);
    return 2 * found > looked_at ? node_rows::kNode : 1;
}

}  // namespace spmvgpu
