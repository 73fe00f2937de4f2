#include "formats/times.hpp"

#include <bit>

#include "core/parallel.hpp"

namespace spmvgpu::times {

namespace {

#define SPMVGPU_TERM(id, rate) rate,
constexpr std::array<Rate, kTermCount> kRateOf = {SPMVGPU_FOR_TERMS(SPMVGPU_TERM)};
#undef SPMVGPU_TERM

constexpr double kWarp = 32, kLine = 128, kWarpsOfProcessor = kThreadsOfProcessor / kWarp;
constexpr double kSectorsOfMesh = 0.15;
constexpr double kL1Bytes = 2.5e5;

// The fraction of a product's data that the next one finds in a cache; the size is in caches.
double kept(double size, double all_up_to, double none_from) {
    return std::clamp((none_from - size) / (none_from - all_up_to), 0.0, 1.0);
}

// A few waves of blocks take as long as whole ones; with many, blocks of one begin while blocks of another end.
double waves_of(double fills) {
    constexpr double kFew = 3;
    return fills < kFew ? std::max(1.0, std::ceil(fills)) : fills + 0.5;
}

// Lines of the L1 that groups of lanes touch. Each group reads `run` items, one after the other.
double lines_touched(double groups, double run, double item) {
    return groups * (1 + std::max(0.0, run * item - item) / kLine);
}

}  // namespace

Time time_of(const Terms& terms, const Terms& costs, const Machine& machine) {
    const auto sum = [&](Term begin, Term end) {
        double total = 0;
        for (int term = begin; term < end; ++term) total += terms[term] * costs[term] * machine.rates[kRateOf[term]];
        return total;
    };
    Time time{.start = sum(kLaunch, kMemory),
              .bytes = sum(kMemory, kXMemory),
              .gathers = sum(kXMemory, kLines),
              .work = sum(kLines, kWaves),
              .waits = sum(kWaves, kTermCount)};
    const double moved = time.bytes + time.gathers;
    const double overlapping = std::sqrt(moved * moved + time.work * time.work + time.waits * time.waits);
    time.us = time.start + (machine.is_gpu ? overlapping : moved + time.work + time.waits);
    return time;
}

double Work::run_sectors() const {
    if (features.nnz < Features::kSmall) return item_ < 8 ? 0.1 : kSectorsOfMesh;
    const double x_bytes = double(features.cols) * item_;
    // If all of x stays in the L1, each processor reads it once.
    const double stays = machine.is_gpu ? kept(x_bytes / kL1Bytes, 0.6, 1) : 0;
    const double once = std::min(features.run_sectors, x_bytes / 32 * machine.processors / features.nnz);
    return stays * once + (1 - stays) * features.run_sectors;
}

Terms Work::streams(double bytes) const {
    const double vectors = features.rows * item_ + std::min(features.cols * item_, 32.0 * features.nnz);
    const double stream = bytes + vectors;
    // The matrix of the product before is still in the cache, all of it or, around the cache's size, a part: kernels on
    // a GPU keep a share of a larger one, see gpu/keeping.hpp.
    const double size = stream / machine.cache_bytes;
    const double in_cache = machine.is_gpu ? kept(size, 0.5, 2.2) : kept(size, 0.65, 1.35);
    Terms terms{};
    terms[kLaunch] = 1;
    terms[kMemory] = stream * (1 - in_cache) / kMillion;
    terms[kCache] = stream * in_cache / kMillion;
    return terms;
}

Terms Work::base(double bytes) const {
    const double x_kept = kept(features.cols * item_ / machine.cache_bytes, 0.8, 1.6);
    Terms terms = streams(bytes);
    terms[kXMemory] = features.long_run_sectors * entries_ * (1 - x_kept);
    terms[kXCache] = run_sectors() * entries_;
    return terms;
}

Terms Work::by_entries() const {
    const double fills = features.nnz / double(loads_at_once(machine.processors));
    Terms terms = base(stored.bytes);
    terms[kXStart] = terms[kXCache] / (1 + fills);
    terms[kEntries] = entries_;
    terms[kRows] = features.rows / kMillion;
    terms[kWaves] = waves_of(fills);
    terms[kGathers] = run_sectors();
    return terms;
}

Terms Work::by_diagonals() const {
    Terms terms = streams();
    terms[kSlots] = stored.slots / kMillion;
    terms[kRows] = features.rows / kMillion;
    terms[kWaves] = waves_of(features.rows / (double(kThreadsOfProcessor) * machine.processors));
    terms[kLoads] = stored.slots / rows();
    return terms;
}

std::int64_t Work::parts_of(int rows_of_a_part, int lanes) const {
    return (features.rows * std::int64_t(lanes) + rows_of_a_part - 1) / rows_of_a_part;
}

Terms Work::on_cpu(std::int64_t parts) const {
    const bool serial = piece_count(static_cast<std::int64_t>(multiplied() + features.rows)) == 1;
    // A thread reads from memory at a rate of its own; for more threads than were measured the rate stays the same.
    const double from_memory = serial ? 1.0 : 1.0 / std::min(machine.processors, machine.measured_processors);
    // Costs count the work of the busiest thread, so that they hold for any number of threads.
    const double by_rows = serial ? 1.0 : 1.0 / std::clamp<double>(static_cast<double>(parts), 1, machine.processors);
    Terms terms = base(stored.bytes);
    terms[kWake] = !serial;
    terms[kSharedCache] = serial ? 0.0 : terms[kCache];
    terms[kMemory] *= from_memory;
    terms[kCache] *= by_rows;
    terms[kXMemory] *= from_memory;
    terms[kXCache] *= by_rows;
    terms[kEntries] = features.nnz * by_rows / kMillion;
    terms[kSlots] = multiplied() * by_rows / kMillion;
    terms[kRows] = features.rows * by_rows / kMillion;
    return terms;
}

Terms Work::by_rows(int lanes) const {
    constexpr double kColumn = 4;
    const int i = std::bit_width(static_cast<unsigned>(lanes)) - 1;
    const double rows = features.rows, mean = std::max(features.mean, 1e-3), groups = kWarp / lanes;
    // Lines that a warp's load touches: one for each of its rows, but not more than all of them occupy.
    const auto touched = [&](double item) {
        return std::min(lines_touched(groups, std::min<double>(lanes, mean), item), groups * mean * item / kLine + 1);
    };
    const double steps = features.warp_steps[i], warps = rows * lanes / kWarp;
    const double full = machine.processors * kWarpsOfProcessor, fills = warps / full;
    const double at_once = std::min<double>(kThreadsOfProcessor / lanes, rows / machine.processors) * kInFlight * lanes;
    const double held = at_once * (item_ + kColumn + 32 * run_sectors());
    Terms terms = base(csr_bytes());
    terms[kLines] = steps * (touched(item_) + touched(kColumn)) / kMillion;
    terms[kRefetch] = std::max(0.0, mean / (kInFlight * lanes) - 1) * rows / kMillion * std::min(1.0, held / kL1Bytes);
    terms[kWaves] = waves_of(fills);
    terms[kDepth] = waves_of(fills) * i;
    terms[kLoads] = std::max(steps / kInFlight / full + 0.5 * std::min(1.0, fills),
                             std::ceil(double(features.longest) / lanes / kInFlight));
    terms[kGathers] = terms[kLoads] * run_sectors();
    return terms;
}

Terms Work::by_tiles(const Tiling& tiling) const {
    const double tile = tiling.tile, threads = tiling.threads;
    const bool is_cut = features.longest > tiling.longest_row;
    const double mean = std::max(features.mean, 1e-3), uneven = std::min(mean + features.deviation, tile);
    const double tiles = std::max(features.nnz / (tile - 0.5 * uneven), features.rows / tile);
    const double fills = tiles / (tiling.blocks * machine.processors), waves = waves_of(fills);
    const double rows_of_tile = std::clamp<double>(tile / mean, 1, tile);
    const int per_thread_log = std::bit_width(static_cast<unsigned>(tiling.tile / tiling.threads)) - 1;
    const double long_rows = features.longer[std::clamp(per_thread_log, 1, Features::kBlockCounts) - 1];
    const double long_of_tile = long_rows / std::max(tiles, 1.0);
    Terms terms = base(csr_bytes());
    terms[kXStart] = terms[kXCache] / (1 + fills);
    terms[kCut] = is_cut ? item_ / 8 : 0;  // for sums of doubles
    terms[kEntries] = entries_;
    terms[kLongRows] = long_rows / kMillion;
    terms[kWaves] = waves;
    terms[kRounds] = waves * std::max(1.0, rows_of_tile / threads);
    terms[kHasLong] = waves * std::min(1.0, long_of_tile);
    terms[kDepth] = waves * long_of_tile / (threads / 32);
    terms[kLoads] = std::ceil((is_cut ? tiling.segment : features.longest) / threads / kInFlight);
    terms[kGathers] = (terms[kLoads] + waves) * run_sectors();
    return terms;
}

Terms Work::by_nodes(int lanes, index_t longest_row) const {
    constexpr double kNodeBytes = 16, kColumn = 4, kBlocks = 7, kWarpsOfBlock = 4;
    const double of_node = features.node_rows, nodes = rows() / of_node, columns = features.nnz / of_node;
    const double in_flight = of_node > 2 ? 2 : 4, at_once = lanes * in_flight, groups = kWarp / lanes;
    // Nodes of a warp wait for the one with the longest rows.
    const int i = std::clamp(int(std::floor(std::log2(lanes / of_node))), 0, Features::kLaneCounts - 1);
    const double uneven = groups == 1 ? 1 : features.warp_steps[i] * kWarp / std::max<index_t>(features.nnz, 1);
    const double rounds = std::max(1.0, features.mean / at_once + 0.5) * uneven;
    const double warps = nodes / groups, waves = waves_of(warps / (kBlocks * kWarpsOfBlock * machine.processors));
    const double lines = of_node * lines_touched(groups, lanes, item_) + lines_touched(groups, lanes, kColumn);
    Terms terms = base(features.nnz * item_ + columns * kColumn + nodes * kNodeBytes);
    terms[kXStart] = terms[kXCache] / (1 + waves);
    terms[kCut] = features.longest > longest_row;
    terms[kLines] = warps * rounds * in_flight * lines / kMillion;
    terms[kWaves] = waves;
    terms[kLoads] = std::max(waves * rounds, std::ceil(std::min(features.longest, longest_row) / at_once));
    terms[kGathers] = terms[kLoads] * run_sectors();
    return terms;
}

Terms Work::by_slices(const Slicing& s) const {
    constexpr double kLanes = 32, kVaries = 3, kFew = 0.2;
    const double rows = features.rows, slices = std::max(1.0, std::ceil(rows / s.block / kLanes));
    const double warps = slices * s.warps, width = s.slots / kLanes / slices;
    const double full = machine.processors * kWarpsOfProcessor, fills = warps / full, waves = waves_of(fills);
    const double rounds = std::max(1.0, std::ceil(width / s.warps / s.in_flight));
    // Neighbours whose rows have one length stay neighbours, except for empty ones.
    const double filled = std::max(1.0, rows - features.empty_rows), mean = std::max(1.0, features.nnz / filled);
    const double squares = (features.deviation * features.deviation + features.mean * features.mean) * rows / filled;
    const double deviation = std::sqrt(std::max(0.0, squares - mean * mean));
    const double far = s.is_sorted ? std::min(1.0, kVaries * deviation / mean) : 0;
    Terms terms = base(s.bytes);
    terms[kXStart] = terms[kXCache] / (1 + fills);
    // Counted in doubles, each in a sector by itself. The cache has time for a few while the matrix comes from memory.
    const double in_cache = terms[kCache] / std::max(terms[kCache] + terms[kMemory], 1e-9);
    const double waited = std::max(in_cache, std::min(1.0, run_sectors() / kFew));
    terms[kUnsorted] = entries_ * far * waited * item_ / 8;
    terms[kPermuted] = s.is_sorted ? rows / kMillion : 0;
    terms[kXLines] = entries_ * run_sectors() / s.block;
    terms[kEntries] = entries_ / s.block;
    terms[kSlots] = s.slots * s.block * s.block / kMillion;
    terms[kSums] = s.warps > 1 ? warps * kLanes / kMillion : 0;
    terms[kWaves] = waves;
    terms[kDepth] = waves * std::log2(s.warps);
    terms[kSorted] = s.is_sorted ? waves : 0;
    terms[kLoads] =
        std::max(warps * rounds / full + 0.5 * std::min(1.0, fills), std::ceil(s.widest / s.warps / s.in_flight));
    terms[kGathers] = terms[kLoads] * run_sectors();
    return terms;
}

}  // namespace spmvgpu::times
