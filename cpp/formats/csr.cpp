#include "formats/csr.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/interrupt.hpp"
#include "core/parallel.hpp"
#include "formats/node_pattern.hpp"
#include "formats/panel_products.hpp"
#include "formats/row_products.hpp"

namespace spmvgpu {

namespace {

// Above this many non-zeros bandwidth rules, below it latency. All thresholds of this file: measured on an H200.
constexpr index_t kLarge = 3'000'000;

// The lanes of a row read about this many entries each: where latency rules fewer, so that a row is done in one go.
int choose_lanes(double mean_row_length, index_t nnz) {
    const double entries_per_lane = nnz < kLarge ? 2.5 : 4;
    const auto lanes = static_cast<unsigned>(std::ceil(std::max(1.0, mean_row_length / entries_per_lane)));
    return static_cast<int>(std::min(32u, std::bit_ceil(lanes)));
}

// The fraction of the entries that lie within a cache sector or two of the entry before them in the row, from a sample
// of rows.
template <class T>
double fraction_of_neighbours(const CsrMatrix<T>& csr) {
    constexpr index_t kSample = 4096, kNear = 8;
    std::int64_t near = 0, entries = 0;
    const std::int64_t step = std::max<index_t>(1, csr.rows / kSample);
    for (std::int64_t row = 0; row < csr.rows; row += step) {
        const index_t begin = csr.row_offsets[row], end = csr.row_offsets[row + 1];
        for (index_t k = begin + 1; k < end; ++k) near += csr.col_indices[k] - csr.col_indices[k - 1] <= kNear;
        entries += end - begin;
    }
    return static_cast<double>(near) / static_cast<double>(std::max<std::int64_t>(entries, 1));
}

// Shuffle has a group of lanes per row, so rows must be even; and its many rows in flight share little of x, so in a
// large matrix the columns must be close together.
template <class T>
CsrKernel choose_kernel(const CsrMatrix<T>& csr, int lanes) {
    constexpr index_t kMaxEntriesPerLane = 16;
    constexpr double kMinNeighbours = 0.25;
    index_t longest = 0;
    for (index_t row = 0; row < csr.rows; ++row) longest = std::max(longest, csr.row_length(row));
    if (longest > kMaxEntriesPerLane * lanes) return CsrKernel::kBalanced;
    const bool scattered = csr.nnz >= kLarge && fraction_of_neighbours(csr) < kMinNeighbours;
    return scattered ? CsrKernel::kBalanced : CsrKernel::kShuffle;
}

int choose_tile(index_t nnz, double mean_row_length, int processors, int value_bytes) {
    // The largest tile that gives every multiprocessor some blocks to overlap, and a block not many more rows than
    // threads.
    constexpr double kBlocksPerProcessor = 8, kRowsPerTile = 512;
    int tile = value_bytes > 8 ? 2048 : 4096;  // its products lie in shared memory
    while (tile > 256 && (nnz / tile < kBlocksPerProcessor * processors || tile > kRowsPerTile * mean_row_length))
        tile /= 2;
    return tile;
}

// Longer rows are cut into segments, so that no block walks one alone: long enough to be worth a block, short enough to
// spread the rows of a small matrix.
index_t choose_segment(index_t tile) { return std::clamp<index_t>(4 * tile, 1024, 4096); }

// Chooses what the tuning leaves open.
template <class T>
CsrTuning complete(const CsrMatrix<T>& csr, CsrTuning tuning, const Target& target) {
    const double mean = static_cast<double>(csr.nnz) / std::max<index_t>(csr.rows, 1);
    if (tuning.lanes_per_row == 0) tuning.lanes_per_row = choose_lanes(mean, csr.nnz);
    if (tuning.tile == 0) tuning.tile = choose_tile(csr.nnz, mean, target.processors, sizeof(T));
    if (tuning.kernel == CsrKernel::kAuto) tuning.kernel = choose_kernel(csr, tuning.lanes_per_row);
    return tuning;
}

// Adds a row that is cut into segments.
void cut_row(CsrPlan& plan, index_t row, index_t begin, index_t end, index_t segment) {
    const index_t first = plan.segments;
    for (index_t nz = begin; nz < end; nz += std::min(segment, end - nz), ++plan.segments) {
        const auto nonzeros = static_cast<std::uint16_t>(std::min(segment, end - nz));
        plan.tiles.push_back({static_cast<index_t>(plan.spans.size()), nz, 0, nonzeros, plan.segments});
    }
    plan.spans.push_back({row, first, plan.segments - 1});
}

// Adds a tile of whole rows.
void add_rows(CsrPlan& plan, const index_t* row_offsets, index_t row, index_t end, int threads) {
    const auto count = static_cast<std::uint16_t>(end - row);
    const index_t limit = Tile::kMaxPerLane * Tile::lanes(count, threads);
    bool has_long_rows = false;
    for (index_t r = row; r < end; ++r) has_long_rows = has_long_rows || row_offsets[r + 1] - row_offsets[r] > limit;
    const auto nonzeros = static_cast<std::uint16_t>(row_offsets[end] - row_offsets[row]);
    plan.tiles.push_back({row, row_offsets[row], count, nonzeros, has_long_rows});
}

void plan_tiles(CsrPlan& plan, index_t rows, const Array<index_t>& row_offsets) {
    const index_t tile = plan.tuning.tile, segment = choose_segment(tile);
    InterruptTimer timer;
    index_t row = 0;
    while (row < rows) {
        const index_t begin = row_offsets[row];
        timer.work(tile);
        if (row_offsets[row + 1] - begin > segment) {
            cut_row(plan, row, begin, row_offsets[row + 1], segment);
            ++row;
            continue;
        }
        // As many whole rows as fit, and at least one; `tile` bounds the rows too, for the sake of empty ones.
        index_t end = row + 1;
        while (end < rows && end - row < tile && row_offsets[end + 1] - begin <= tile) ++end;
        add_rows(plan, row_offsets.data(), row, end, Tile::threads(tile));
        row = end;
    }
    // Long rows first: a block that starts late on one would be waited for.
    std::stable_partition(plan.tiles.begin(), plan.tiles.end(), [](const Tile& t) { return t.rows <= 1; });
}

}  // namespace

std::vector<Options> CsrTuning::candidates() {
    using namespace std::string_literals;
    std::vector<Options> list;
    for (std::int64_t tile : {2048, 1024, 512, 256, 4096}) list.push_back({{"kernel", "balanced"s}, {"tile", tile}});
    for (std::int64_t lanes : {8, 4, 16, 2, 32, 1}) list.push_back({{"kernel", "shuffle"s}, {"lanes_per_row", lanes}});
    return list;
}

template <class T>
CsrPlan Csr<T>::plan(const CsrMatrix<T>& csr, const Tuning& tuning, const Target& target) {
    CsrPlan plan{complete(csr, tuning, target), {}, {}, {}};
    plan.cost.bytes = csr.bytes();
    plan.cost.slots = plan.cost.entries = plan.cost.gathers = csr.nnz;
    if (target.device.is_cuda()) {
        if (plan.tuning.kernel == CsrKernel::kBalanced) plan_tiles(plan, csr.rows, csr.row_offsets);
        plan.cost.bytes += plan.tiles.size() * sizeof(Tile) + plan.spans.size() * sizeof(RowSpan) +
                           workspace_bytes(plan.segments, plan.spans.size());
        plan.node_rows = find_node_rows(csr.rows, csr.row_offsets.data(), csr.col_indices.data());
        plan.cost.launches = csr.rows > 0;
    }
    return plan;
}

template <class T>
Csr<T> Csr<T>::from_csr(const CsrMatrix<T>& csr, const Plan& plan) {
    return {csr.rows,
            csr.cols,
            csr.nnz,
            csr.row_offsets,
            csr.col_indices,
            csr.values,
            Array<Tile>::from(plan.tiles),
            Array<RowSpan>::from(plan.spans),
            plan.segments,
            plan.tuning,
            plan.node_rows};
}

template <class T>
void Csr<T>::spmv(const Product<T>& product) const {
    spmv_by_rows_and_nonzeros(rows, row_offsets.data(), product, [this](index_t begin, index_t end, const T* x) {
        return sum_products(values.data(), begin, end, [&](index_t k) { return x[col_indices[k]]; });
    });
}

template <class T>
void Csr<T>::multiply_panel(const Product<T>& product) const {
    multiply_panel_by_rows(rows, row_offsets.data(), values.data(), col_indices.data(), product);
}

#define INSTANTIATE(T) template struct Csr<T>;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)

}  // namespace spmvgpu
