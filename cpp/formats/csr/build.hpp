#pragma once

#include <algorithm>

#include "core/passes/csr_passes.hpp"
#include "formats/builder.hpp"
#include "formats/csr/layout.hpp"
#include "formats/csr/model.hpp"
#include "formats/feature_passes.hpp"
#include "formats/shared/node_rows.hpp"
#include "formats/times.hpp"

namespace spmvgpu {

namespace csr_choice {

// Where the rows of a tile that begins with `row` end: as many whole rows as fit, and at least one; `tile` bounds the
// rows too, for the sake of empty ones. A row that is cut into segments is by itself, as it does not fit.
constexpr index_t tile_end(const index_t* row_offsets, index_t rows, index_t row, index_t tile) {
    const index_t most = rows - row < tile ? rows : row + tile;
    const std::int64_t full = std::int64_t(row_offsets[row]) + tile;
    const auto end = static_cast<index_t>(first_above(row_offsets, row + 1, std::int64_t(most) + 1, full)) - 1;
    return end > row ? end : row + 1;
}

constexpr bool has_rows_longer_than(const index_t* row_offsets, index_t row, index_t end, index_t limit) {
    for (; row < end; ++row) {
        if (row_offsets[row + 1] - row_offsets[row] > limit) return true;
    }
    return false;
}

// Returns true if a node begins at a row. Marked rows have other columns than the one before. The rows up to the next
// mark are divided equally among as few nodes as take them. If there are more than kMany, multiples begin nodes.
constexpr bool begins_node(const Mark* differs, index_t rows, index_t row) {
    constexpr index_t kMost = Node::kMostRows, kMany = 8 * kMost;
    if (differs[row] != 0) return true;
    index_t first = row - 1, end = row + 1;
    while (differs[first] == 0 && row - first < kMany) --first;
    while (end < rows && differs[end] == 0 && end - row < kMany) ++end;
    const index_t together = end - first;  // the exact number of rows, up to kMany
    if (together > kMany) return row % kMost == 0;
    const index_t nodes = (together + kMost - 1) / kMost, node = (row - first) * nodes / together;
    return node > 0 && row == first + (together * node + nodes - 1) / nodes;
}

}  // namespace csr_choice

template <class T, class Passes>
struct Builder<Csr<T>, Passes> {
    static CsrPlan plan_for(Passes& passes, const CsrMatrix<T>& csr, const CsrTuning& tuning, const Target& target) {
        CsrPlan plan;
        complete(passes, plan, csr, tuning, target);
        plan.cost.bytes = csr.bytes();
        plan.cost.slots = plan.cost.entries = plan.cost.gathers = csr.nnz;
        if (target.device.is_gpu()) {
            const index_t *const row_offsets = csr.row_offsets.data(),
                                 longest_of_node = Node::longest_row(plan.tuning.tile);
            const bool by_nodes = plan.tuning.kernel == CsrKernel::kNodes;
            plan.node_rows = find_node_rows(passes, csr.rows, row_offsets, csr.col_indices.data());
            if (by_nodes && plan.longest_row == 0) plan.longest_row = longest_row(passes, csr.rows, row_offsets);
            // Products with several vectors take tiles, too, unless nodes have several rows.
            if (plan.tuning.kernel == CsrKernel::kBalanced ||
                (by_nodes && (plan.node_rows == 1 || plan.longest_row > longest_of_node))) {
                plan_tiles(passes, plan, csr.pattern(), target.processors);
            }
            if (by_nodes) plan.nodes = find_nodes(passes, csr.pattern(), longest_of_node);
            plan.cost.bytes += plan.tiles.bytes() + plan.spans.bytes() + plan.nodes.bytes() +
                               Csr<T>::workspace_bytes(plan.segments, plan.spans.size());
            plan.cost.launches = csr.rows > 0 ? 1 + (by_nodes && plan.segments > 0) : 0;
        }
        return plan;
    }

    static Csr<T> from_csr(Passes&, const CsrMatrix<T>& csr, const CsrPlan& plan) {
        return {csr.rows,   csr.cols,   csr.nnz,       csr.row_offsets, csr.col_indices, csr.values,
                plan.tiles, plan.spans, plan.segments, plan.nodes,      plan.tuning,     plan.node_rows};
    }

    // Chooses the parameters that the tuning leaves open. The CPU has a single method.
    static void complete(Passes& passes, CsrPlan& plan, const CsrMatrix<T>& csr, CsrTuning asked,
                         const Target& target) {
        const bool by_nodes = asked.kernel == CsrKernel::kNodes;
        if (by_nodes && asked.lanes_per_row > 0) asked.lanes_per_row = std::max(asked.lanes_per_row, Node::kLeastLanes);
        plan.tuning = asked;
        if (asked.kernel != CsrKernel::kAuto && asked.lanes_per_row != 0 && asked.tile != 0) return;
        const Features features = feature_passes::for_options(passes, any_csr(csr), target);
        plan.longest_row = features.longest;
        plan.tuning = csr_choice::fastest(asked, features, sizeof(T), target.processors);
    }

    static void plan_tiles(Passes& passes, CsrPlan& plan, const CsrPattern& csr, int processors) {
        const index_t rows = csr.rows, tile = plan.tuning.tile;
        const index_t* const row_offsets = csr.row_offsets;
        const bool by_nodes = plan.tuning.kernel == CsrKernel::kNodes;
        const index_t longest_row = by_nodes ? Node::longest_row(tile) : Tile::longest_row(tile, rows, csr.nnz);
        const index_t segment = Tile::segment(tile, csr.nnz, processors);
        const int threads = Tile::threads(tile);
        const Array<index_t> first_rows = passes.chain(
            rows, [=] SPMVGPU_BODY(index_t row) { return csr_choice::tile_end(row_offsets, rows, row, tile); });
        const auto groups = static_cast<index_t>(first_rows.size());  // groups of rows, each one tile or one cut row
        const index_t* const first_row = first_rows.data();

        // Long rows come first, because a block that starts late on one would be waited for: segments, then tiles of
        // one row, then the others, all in the order of their rows. The counts of all kinds are contiguous, so that one
        // scan gives all positions.
        enum { kSegments, kSingle, kOther, kCut, kCounted };
        Array<index_t> counts = passes.template scratch<index_t>(kCounted * std::size_t(groups) + 1);
        index_t *const segments_before = counts.data(), *const single = segments_before + kSingle * std::size_t(groups);
        index_t *const other = single + groups, *const cut = other + groups;
        passes.each(
            groups,
            [=] SPMVGPU_BODY(std::int64_t g) {
                const index_t row = first_row[g], end = g + 1 < groups ? first_row[g + 1] : rows;
                const index_t length = row_offsets[row + 1] - row_offsets[row];
                const bool is_cut = length > longest_row;
                cut[g] = is_cut;
                segments_before[g] = is_cut ? length / segment + (length % segment != 0) : 0;
                single[g] = !is_cut && end - row == 1;
                other[g] = !is_cut && end - row > 1;
            },
            8);
        passes.start_scan(counts.data(), kCounted * std::int64_t(groups));
        const CountsOfTiles found = counts_of_tiles(passes, single, cut, cut + groups);
        const index_t tiles_end = found.tiles;
        plan.segments = found.segments;
        plan.spans = passes.template make<RowSpan>(found.all - tiles_end);
        plan.tiles = passes.template make<Tile>(tiles_end);
        Tile* const tiles = plan.tiles.data();
        RowSpan* const spans = plan.spans.data();
        passes.each(
            groups,
            [=] SPMVGPU_BODY(std::int64_t g) {
                const index_t row = first_row[g], end = g + 1 < groups ? first_row[g + 1] : rows;
                const index_t begin = row_offsets[row], nonzeros = row_offsets[end] - begin;
                if (cut[g + 1] != cut[g]) {
                    const index_t first = segments_before[g], last = segments_before[g + 1] - 1;
                    const index_t span = cut[g] - tiles_end;
                    for (index_t s = first; s <= last; ++s) {
                        const index_t nz = begin + (s - first) * segment, left = begin + nonzeros - nz;
                        tiles[s] = {span, nz, 0, static_cast<std::uint16_t>(left < segment ? left : segment), s};
                    }
                    spans[span] = {row, first, last};
                    return;
                }
                const index_t limit = Tile::kMaxPerLane * Features::lanes(end - row, threads);
                tiles[end - row == 1 ? single[g] : other[g]] = {
                    row, begin, static_cast<std::uint16_t>(end - row), static_cast<std::uint16_t>(nonzeros),
                    csr_choice::has_rows_longer_than(row_offsets, row, end, limit)};
            },
            500);
    }

    struct CountsOfTiles {
        index_t segments = 0, tiles = 0, all = 0;
    };
    // The scan of plan_tiles() before the first single row, before the first cut one, and at the end. All are read at
    // once.
    static CountsOfTiles counts_of_tiles(Passes& passes, const index_t* single, const index_t* cut,
                                         const index_t* end) {
        Array<CountsOfTiles> counts = passes.template scratch<CountsOfTiles>(1);
        CountsOfTiles* const to = counts.data();
        passes.each(1, [=] SPMVGPU_BODY(std::int64_t) { *to = {*single, *cut, *end}; });
        return passes.read(counts.data());
    }

    static Array<Node> find_nodes(Passes& passes, const CsrPattern& csr, index_t longest_row) {
        const index_t rows = csr.rows;
        const index_t *const row_offsets = csr.row_offsets, *const cols = csr.col_indices;
        Array<Mark> marks = passes.template scratch<Mark>(rows);  // rows with other columns than the one before
        Mark* const differs = marks.data();
        passes.each_by_few_with(
            rows, 0,
            [=] SPMVGPU_BODY(const auto& lanes, std::int64_t row, const Word*) {
                const index_t begin = row_offsets[row], length = row_offsets[row + 1] - begin;
                const index_t *const own = cols + begin, *const before = own - length;
                const bool is_other = row == 0 || length > longest_row || length != begin - row_offsets[row - 1] ||
                                      lanes.any_of(length, [&](index_t k) { return own[k] != before[k]; });
                lanes.once([&] { differs[row] = is_other; });
            },
            4 + csr.nnz / std::max(1, rows));
        const Array<index_t> firsts = select(passes, rows, [=] SPMVGPU_BODY(std::int64_t row) {
            return csr_choice::begins_node(differs, rows, static_cast<index_t>(row));
        });
        const index_t* const first_rows = firsts.data();
        const auto count = static_cast<index_t>(firsts.size());
        Array<Node> nodes = passes.template make<Node>(count);
        Node* const to = nodes.data();
        passes.each(
            count,
            [=] SPMVGPU_BODY(std::int64_t i) {
                const index_t row = first_rows[i], end = i + 1 < count ? first_rows[i + 1] : rows;
                const index_t begin = row_offsets[row], length = row_offsets[row + 1] - begin;
                to[i] = length > longest_row ? Node{row, 0, begin, 0} : Node{row, end - row, begin, length};
            },
            4);
        return nodes;
    }
};

}  // namespace spmvgpu
