// Neighbouring rows with equal columns, like the rows of one node of a finite element.
#pragma once

#include <limits>

#include "core/passes/lanes.hpp"
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
template <class Lanes>
SPMVGPU_IN_BODY bool repeats(const Lanes& lanes, const index_t* row_offsets, const index_t* col_indices, index_t row,
                             index_t most) {
    constexpr index_t kMostCompared = 64;
    const index_t length = length_of(row_offsets, row, most);
    if (length == 0 || length != length_of(row_offsets, row - 1, most)) return false;
    const index_t *const own = col_indices + row_offsets[row], *const before = col_indices + row_offsets[row - 1];
    return !lanes.any_of(length < kMostCompared ? length : kMostCompared,
                         [&](index_t i) { return own[i] != before[i]; });
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
    Array<index_t> counts = passes.template scratch<index_t>(1);
    index_t* const count = counts.data();
    passes.fill(count, 1, index_t(0));
    passes.each_in_step(
        looked_at,
        [=] SPMVGPU_BODY(const auto& lanes, std::int64_t i) {
            const auto row = static_cast<index_t>(i * step * node_rows::kNode);
            if (!node_rows::repeats(lanes, row_offsets, col_indices, row + 1, most)) return;
            if (!node_rows::repeats(lanes, row_offsets, col_indices, row + 2, most)) return;
            lanes.once([&] { count_one(count); });
        },
        kNanosecondsPerNode);
    return 2 * std::int64_t(passes.read(count)) > looked_at ? node_rows::kNode : 1;
}

}  // namespace spmvgpu
