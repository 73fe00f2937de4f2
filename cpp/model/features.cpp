#include "model/features.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "core/host_vector.hpp"
#include "core/parallel.hpp"
#include "model/feature_passes.hpp"
#include "passes/host_passes.hpp"

namespace spmvgpu {

namespace {

using feature_passes::SectorSet;
using feature_passes::SectorSlot;
using feature_passes::Tally;

// Slots for a set of up to so many sectors.
HostVector<SectorSlot> make_slots(index_t sectors) {
    return HostVector<SectorSlot>(std::bit_ceil(std::size_t(sectors)), SectorSlot{0, 0});
}

// A sample is a piece of the loop, whose groups share their slots.
void sample_groups(Features& features, const index_t* row_offsets, const index_t* col_indices, int shift) {
    constexpr index_t kWarp = Features::kWarp, kBlock = Features::kBlock, kInFlight = Features::kInFlight;
    const index_t rows = features.rows, blocks = rows / kBlock + (rows % kBlock != 0);
    const index_t samples = std::min(blocks, feature_passes::kSamples);
    HostVector<std::array<Tally, 2 * Features::kLaneCounts>> tallies(samples);
    constexpr std::int64_t kNanosecondsPerSample = 100'000;
    parallel_for(samples, kNanosecondsPerSample * samples, [&](index_t s) {
        auto slots = make_slots(4 * kBlock * kInFlight);
        SectorSet set(slots.data(), static_cast<std::uint32_t>(slots.size()));
        const auto row = static_cast<index_t>(part_begin(blocks, samples, s)) * kBlock;
        const auto read = [&](index_t first, index_t threads, index_t lanes, index_t in_flight) {
            return feature_passes::read_group(rows, row_offsets, col_indices, shift, first, threads, lanes, in_flight,
                                              set);
        };
        for (int i = 0; i < Features::kLaneCounts; ++i) {
            const index_t lanes = 1 << i;
            // As many warps as have kWarp rows together.
            for (index_t r = row; r < std::min(rows - row, kWarp) + row; r += kWarp / lanes) {
                tallies[s][2 * i] += read(r, kWarp, lanes, 1);
            }
            tallies[s][2 * i + 1] += read(row, kBlock, lanes, kInFlight);
        }
    });
    for (int i = 0; i < Features::kLaneCounts; ++i) {
        Tally warp, block;
        for (const auto& tally : tallies) warp += tally[2 * i], block += tally[2 * i + 1];
        features.warp_sectors[i] = warp.per_entry();
        features.block_sectors[i] = block.per_entry();
    }
}

double sample_windows(const Features& features, const index_t* col_indices, int shift, index_t window) {
    const index_t windows = features.nnz / window + (features.nnz % window != 0);
    const index_t taken = feature_passes::windows_taken(windows, window);
    std::vector<Tally> tallies(taken);
    parallel_for(taken, std::int64_t(taken) * window * 4, [&](index_t s) {
        const auto begin = static_cast<index_t>(part_begin(windows, taken, s)) * window;
        const index_t end = std::min(features.nnz - begin, window) + begin;
        auto slots = make_slots(2 * (end - begin));
        SectorSet set(slots.data(), static_cast<std::uint32_t>(slots.size()));
        for (index_t i = begin; i < end; ++i) set.add(col_indices[i] >> shift);
        tallies[s] = {set.count(), end - begin};
    });
    Tally total;
    for (const Tally& tally : tallies) total += tally;
    return total.per_entry();
}

}  // namespace

Features extract_features(index_t rows, index_t cols, const index_t* row_offsets, const index_t* col_indices,
                          int item_bytes) {
    Features features;
    features.rows = rows;
    features.cols = cols;
    features.nnz = row_offsets[rows];
    const int shift = feature_passes::sector_shift(item_bytes);
    HostPasses passes;
    feature_passes::read_row_lengths(passes, features, row_offsets);
    sample_groups(features, row_offsets, col_indices, shift);
    features.run_sectors = sample_windows(features, col_indices, shift, Features::kRun);
    features.long_run_sectors = sample_windows(features, col_indices, shift, Features::kLongRun);
    return features;
}

}  // namespace spmvgpu
