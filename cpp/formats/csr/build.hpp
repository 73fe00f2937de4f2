// How csr is built; see formats/builder.hpp.
#pragma once

#include "core/passes/sectors.hpp"
#include "formats/builder.hpp"
#include "formats/csr/layout.hpp"
#include "formats/shared/node_rows.hpp"

namespace spmvgpu {

// What the choice of a kernel looks at. Above kLarge non-zeros bandwidth rules, below it latency. Thresholds: measured
// on an H200.
namespace csr_choice {

constexpr index_t kLarge = 3'000'000;

// The lanes of a row, and the tile if gathers do not matter; both from sizes alone.
int choose_lanes(double mean_row_length, index_t nnz);
int choose_tile(index_t nnz, double mean_row_length, int processors, int value_bytes);

// Longer rows are cut into segments, so that no block walks one alone: long enough to be worth a block, short enough to
// spread the rows of a small matrix. No shorter than a tile.
constexpr index_t choose_segment(index_t tile) {
    const index_t segment = 4 * tile;
    return segment < 1024 ? 1024 : segment > 4096 ? 4096 : segment;
}

struct Neighbours {
    std::int64_t near = 0, entries = 0;

    constexpr Neighbours& operator+=(const Neighbours& other) {
        near += other.near;
        entries += other.entries;
        return *this;
    }
};

// The fraction of the entries that lie within a cache sector or two of the entry before them in the row, from a sample
// of rows.
template <class T, class Passes>
double fraction_of_neighbours(Passes& passes, const CsrMatrix<T>& csr) {
    constexpr index_t kSample = 4096, kNear = 8;
    constexpr std::int64_t kNanosecondsPerRow = 100;
    const index_t *const row_offsets = csr.row_offsets.data(), *const cols = csr.col_indices.data();
    const std::int64_t step = csr.rows < kSample ? 1 : csr.rows / kSample;
    const auto found = passes.template reduce<Neighbours>((csr.rows + step - 1) / step,
                                                          [=] SPMVGPU_BODY(std::int64_t i) {
                                                              const index_t begin = row_offsets[i * step],
                                                                            end = row_offsets[i * step + 1];
                                                              Neighbours row{0, end - begin};
                                                              for (index_t k = begin + 1; k < end; ++k)
                                                                  row.near += cols[k] - cols[k - 1] <= kNear;
                                                              return row;
                                                          },
                                                          kNanosecondsPerRow);
    return static_cast<double>(found.near) / static_cast<double>(found.entries > 0 ? found.entries : 1);
}

// Shuffle has a group of lanes per row, so rows must be even; and its many rows in flight share little of x, so in a
// large matrix the columns must be close together.
template <class T, class Passes>
CsrKernel choose_kernel(Passes& passes, const CsrMatrix<T>& csr, int lanes) {
    constexpr index_t kSmall = 1 << 17;
    const index_t most_per_lane = csr.nnz < kSmall ? 8 : 16;  // in small matrices a long row is waited for
    constexpr double kMinNeighbours = 0.25;
    const index_t* const row_offsets = csr.row_offsets.data();
    const auto longest = largest<index_t>(
        passes, csr.rows, [=] SPMVGPU_BODY(std::int64_t row) { return row_offsets[row + 1] - row_offsets[row]; });
    if (longest > most_per_lane * lanes) return CsrKernel::kBalanced;
    const bool scattered = csr.nnz >= kLarge && fraction_of_neighbours(passes, csr) < kMinNeighbours;
    return scattered ? CsrKernel::kBalanced : CsrKernel::kShuffle;
}

// Blocks wait for their slowest gather. Where the entries of a tile share few sectors of x, as in graphs, gathers take
// longest, and more and smaller tiles wait less: with 512 non-zeros products are measured up to 1.3 times as fast there
// as with what sizes alone choose, and slower elsewhere. Neighbours in a row, which choose_kernel counts, do not tell:
// those of a wide band are far apart, and the rows beside it gather the same sectors.
constexpr int kScatteredTile = 512;

template <class T, class Passes>
bool gathers_anywhere(Passes& passes, const CsrMatrix<T>& csr) {
    constexpr index_t kWindow = 1 << 12, kSampled = 1 << 18;
    constexpr double kMinSectors = 0.45;  // per entry
    Array<Tally> tallies = passes.template scratch<Tally>(1);
    Tally* const tally = tallies.data();
    passes.fill(tally, 1, Tally{});
    sample_windows(passes, csr.nnz, csr.col_indices.data(), sector_shift(sizeof(T)), kWindow, kSampled, tally);
    return sectors_per_entry(passes.read(tally)) >= kMinSectors;
}

// Where the rows of a tile that begins with `row` end: as many whole rows as fit, and at least one; `tile` bounds the
// rows too, for the sake of empty ones. A row that is cut into segments is by itself, as it does not fit.
constexpr index_t tile_end(const index_t* row_offsets, index_t rows, index_t row, index_t tile) {
    const index_t most = rows - row < tile ? rows : row + tile;
    const std::int64_t full = std::int64_t(row_offsets[row]) + tile;
    const auto end = static_cast<index_t>(first_above(row_offsets, row + 1, std::int64_t(most) + 1, full)) - 1;
    return end > row ? end : row + 1;
}

struct SegmentBounds {
    index_t tiles_end = 0, segments_end = 0;
};

constexpr bool has_rows_longer_than(const index_t* row_offsets, index_t row, index_t end, index_t limit) {
    for (; row < end; ++row) {
        if (row_offsets[row + 1] - row_offsets[row] > limit) return true;
    }
    return false;
}

}  // namespace csr_choice

template <class T, class Passes>
struct Builder<Csr<T>, Passes> {
    static CsrPlan plan_for(Passes& passes, const CsrMatrix<T>& csr, const CsrTuning& tuning, const Target& target) {
        CsrPlan plan;
        plan.tuning = complete(passes, csr, tuning, target);
        plan.cost.bytes = csr.bytes();
        plan.cost.slots = plan.cost.entries = plan.cost.gathers = csr.nnz;
        if (target.device.is_gpu()) {
            if (plan.tuning.kernel == CsrKernel::kBalanced) plan_tiles(passes, plan, csr.rows, csr.row_offsets.data());
            plan.cost.bytes +=
                plan.tiles.bytes() + plan.spans.bytes() + Csr<T>::workspace_bytes(plan.segments, plan.spans.size());
            plan.node_rows = find_node_rows(passes, csr.rows, csr.row_offsets.data(), csr.col_indices.data());
            plan.cost.launches = csr.rows > 0;
        }
        return plan;
    }

    static Csr<T> from_csr(Passes&, const CsrMatrix<T>& csr, const CsrPlan& plan) {
        return {csr.rows,   csr.cols,   csr.nnz,       csr.row_offsets, csr.col_indices, csr.values,
                plan.tiles, plan.spans, plan.segments, plan.tuning,     plan.node_rows};
    }

    // Chooses what the tuning leaves open.
    static CsrTuning complete(Passes& passes, const CsrMatrix<T>& csr, CsrTuning tuning, const Target& target) {
        const double mean = static_cast<double>(csr.nnz) / (csr.rows > 0 ? csr.rows : 1);
        if (tuning.lanes_per_row == 0) tuning.lanes_per_row = csr_choice::choose_lanes(mean, csr.nnz);
        if (tuning.kernel == CsrKernel::kAuto) {
            tuning.kernel = csr_choice::choose_kernel(passes, csr, tuning.lanes_per_row);
        }
        if (tuning.tile == 0) {
            tuning.tile = csr_choice::choose_tile(csr.nnz, mean, target.processors, sizeof(T));
            const bool is_read = target.device.is_gpu() && tuning.kernel == CsrKernel::kBalanced;
            if (is_read && tuning.tile > csr_choice::kScatteredTile && csr_choice::gathers_anywhere(passes, csr)) {
                tuning.tile = csr_choice::kScatteredTile;
            }
        }
        return tuning;
    }

    static void plan_tiles(Passes& passes, CsrPlan& plan, index_t rows, const index_t* row_offsets) {
        const index_t tile = plan.tuning.tile, segment = csr_choice::choose_segment(tile);
        const int threads = Tile::threads(tile);
        const Array<index_t> first_rows = passes.chain(
            rows, [=] SPMVGPU_BODY(index_t row) { return csr_choice::tile_end(row_offsets, rows, row, tile); });
        const auto groups = static_cast<index_t>(first_rows.size());  // of rows, each one tile or one cut row
        const index_t* const first_row = first_rows.data();

        // Long rows first: a block that starts late on one would be waited for. So the tiles of one row at most come
        // before the others, either in the order of their rows. What is counted of each group lies one after the
        // other, so that one scan says where everything goes.
        enum { kSingle, kOther, kSegments, kCut, kCounted };
        Array<index_t> counts = passes.template scratch<index_t>(kCounted * std::size_t(groups) + 1);
        index_t *const single = counts.data() + kSingle * std::size_t(groups), *const other = single + groups;
        index_t *const segments_before = other + groups, *const cut = segments_before + groups;
        passes.each(
            groups,
            [=] SPMVGPU_BODY(std::int64_t g) {
                const index_t row = first_row[g], end = g + 1 < groups ? first_row[g + 1] : rows;
                const index_t length = row_offsets[row + 1] - row_offsets[row];
                const bool is_cut = length > segment;
                const index_t pieces = is_cut ? length / segment + (length % segment != 0) : 0;
                cut[g] = is_cut;
                segments_before[g] = pieces;
                single[g] = is_cut ? pieces : end - row == 1;
                other[g] = !is_cut && end - row > 1;
            },
            8);
        const index_t all = passes.scan(counts.data(), kCounted * std::int64_t(groups));
        const csr_choice::SegmentBounds bounds = bounds_of_segments(passes, segments_before, cut);
        const index_t tiles_end = bounds.tiles_end, segments_end = bounds.segments_end;
        plan.segments = segments_end - tiles_end;
        plan.spans = passes.template make<RowSpan>(all - segments_end);
        plan.tiles = passes.template make<Tile>(tiles_end);
        Tile* const tiles = plan.tiles.data();
        RowSpan* const spans = plan.spans.data();
        passes.each(
            groups,
            [=] SPMVGPU_BODY(std::int64_t g) {
                const index_t row = first_row[g], end = g + 1 < groups ? first_row[g + 1] : rows;
                const index_t begin = row_offsets[row], nonzeros = row_offsets[end] - begin;
                if (cut[g + 1] != cut[g]) {
                    const index_t first = segments_before[g] - tiles_end, last = segments_before[g + 1] - tiles_end - 1;
                    const index_t span = cut[g] - segments_end;
                    for (index_t s = first; s <= last; ++s) {
                        const index_t nz = begin + (s - first) * segment, left = begin + nonzeros - nz;
                        tiles[single[g] + s - first] = {span, nz, 0,
                                                        static_cast<std::uint16_t>(left < segment ? left : segment), s};
                    }
                    spans[span] = {row, first, last};
                    return;
                }
                const index_t limit = Tile::kMaxPerLane * Tile::lanes(end - row, threads);
                tiles[end - row == 1 ? single[g] : other[g]] = {
                    row, begin, static_cast<std::uint16_t>(end - row), static_cast<std::uint16_t>(nonzeros),
                    csr_choice::has_rows_longer_than(row_offsets, row, end, limit)};
            },
            500);
    }

    // The first segment's number and the first cut row's in the scan of plan_tiles, read at once.
    static csr_choice::SegmentBounds bounds_of_segments(Passes& passes, const index_t* segments_before,
                                                        const index_t* cut) {
        Array<csr_choice::SegmentBounds> bounds = passes.template scratch<csr_choice::SegmentBounds>(1);
        csr_choice::SegmentBounds* const to = bounds.data();
        passes.each(1, [=] SPMVGPU_BODY(std::int64_t) { *to = {*segments_before, *cut}; });
        return passes.read(bounds.data());
    }
};

}  // namespace spmvgpu
