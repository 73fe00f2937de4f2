#include "model/features.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/host_vector.hpp"
#include "core/parallel.hpp"

namespace spmvgpu {

namespace {

constexpr index_t kWarp = Features::kWarp;

// Columns that share a 32-byte sector of x, as a shift.
int sector_shift(int item_bytes) { return std::countr_zero(32u / static_cast<unsigned>(item_bytes)); }

// Counts the different sectors among those added since the last clear(); forgets in constant time.
class SectorSet {
public:
    explicit SectorSet(index_t capacity) : mask_(std::bit_ceil(std::size_t(capacity)) - 1), slots_(mask_ + 1) {}

    void clear() { ++round_, count_ = 0; }
    void add(index_t sector) {
        std::size_t at = static_cast<std::uint32_t>(sector) * std::uint32_t(2654435761u) >> 7 & mask_;
        for (; slots_[at].round == round_; at = (at + 1) & mask_) {
            if (slots_[at].sector == sector) return;
        }
        slots_[at] = {round_, sector};
        ++count_;
    }
    std::int64_t count() const { return count_; }

private:
    struct Slot {
        std::uint32_t round = 0;
        index_t sector = 0;
    };
    std::size_t mask_;
    HostVector<Slot> slots_;
    std::uint32_t round_ = 1;  // of no slot yet
    std::int64_t count_ = 0;
};

void read_row_lengths(Features& features, const index_t* row_offsets) {
    const index_t rows = features.rows, warps = rows / kWarp + (rows % kWarp != 0);
    struct Lengths {
        std::int64_t empty = 0;
        index_t longest = 0;
        double squares = 0;
        double steps[Features::kLaneCounts] = {};

        Lengths& operator+=(const Lengths& other) {
            empty += other.empty;
            longest = std::max(longest, other.longest);
            squares += other.squares;
            for (int i = 0; i < Features::kLaneCounts; ++i) steps[i] += other.steps[i];
            return *this;
        }
    };
    const auto read_warp = [&](index_t warp, Lengths& found) {
        const index_t begin = warp * kWarp, end = std::min(rows - begin, kWarp) + begin;
        // The longest of groups of one row, of two, of four, ...: a level of 2^g rows goes with 32 / 2^g lanes a row.
        index_t lengths[kWarp] = {};
        for (index_t row = begin; row < end; ++row) {
            const index_t length = row_offsets[row + 1] - row_offsets[row];
            lengths[row - begin] = length;
            found.empty += length == 0;
            found.squares += double(length) * length;
        }
        for (int level = 0; level < Features::kLaneCounts; ++level) {
            const int lanes_log = Features::kLaneCounts - 1 - level, groups = kWarp >> level;
            std::int64_t sum = 0;
            for (int g = 0; g < groups; ++g) {
                if (level > 0) lengths[g] = std::max(lengths[2 * g], lengths[2 * g + 1]);
                sum += (std::int64_t(lengths[g]) + (1 << lanes_log) - 1) >> lanes_log;
            }
            found.steps[lanes_log] += static_cast<double>(sum);
        }
        found.longest = std::max(found.longest, lengths[0]);
    };
    constexpr std::int64_t kNanosecondsPerRow = 4;
    const auto [empty, longest, squares, steps] =
        parallel_sum<Lengths>(warps, kNanosecondsPerRow * rows, [&](std::int64_t begin, std::int64_t end) {
            Lengths found;
            for (std::int64_t warp = begin; warp < end; ++warp) read_warp(static_cast<index_t>(warp), found);
            return found;
        });
    features.empty_rows = static_cast<index_t>(empty);
    features.longest = longest;
    features.mean = double(features.nnz) / std::max<index_t>(rows, 1);
    features.deviation = std::sqrt(std::max(0.0, squares / std::max<index_t>(rows, 1) - features.mean * features.mean));
    std::copy(std::begin(steps), std::end(steps), features.warp_steps.begin());
}

struct Tally {
    double sectors = 0, entries = 0;

    double per_entry() const { return sectors / std::max(entries, 1.0); }
};

// What a group of `threads` threads, `lanes` of them for each row from `row` on, loads `in_flight` times at once: its
// different sectors, added up over all rounds or enough of them.
void read_group(const Features& features, const index_t* row_offsets, const index_t* col_indices, int shift,
                index_t row, index_t threads, index_t lanes, index_t in_flight, SectorSet& set, Tally& tally) {
    constexpr index_t kMaxEntries = 2048;
    const index_t end = std::min(features.rows - row, threads / lanes) + row;
    index_t longest = 0, seen = 0;
    for (index_t r = row; r < end; ++r) longest = std::max(longest, row_offsets[r + 1] - row_offsets[r]);
    for (std::int64_t k = 0; k < longest && seen < kMaxEntries; k += lanes * in_flight) {
        set.clear();
        for (index_t r = row; r < end; ++r) {
            const std::int64_t stop =
                std::min<std::int64_t>(row_offsets[r + 1], row_offsets[r] + k + lanes * in_flight);
            for (std::int64_t i = row_offsets[r] + k; i < stop; ++i, ++seen) set.add(col_indices[i] >> shift);
        }
        tally.sectors += static_cast<double>(set.count());
    }
    tally.entries += seen;
}

void sample_groups(Features& features, const index_t* row_offsets, const index_t* col_indices, int shift) {
    constexpr index_t kSamples = 64, kBlock = Features::kBlock, kInFlight = Features::kInFlight;
    const index_t blocks = features.rows / kBlock + (features.rows % kBlock != 0), samples = std::min(blocks, kSamples);
    HostVector<std::array<Tally, 2 * Features::kLaneCounts>> tallies(samples);
    constexpr std::int64_t kNanosecondsPerSample = 100'000;
    parallel_for(samples, kNanosecondsPerSample * samples, [&](index_t s) {
        SectorSet set(4 * kBlock * kInFlight);
        const auto row = static_cast<index_t>(part_begin(blocks, samples, s)) * kBlock;
        for (int i = 0; i < Features::kLaneCounts; ++i) {
            const index_t lanes = 1 << i;
            // As many warps as have kWarp rows together.
            for (index_t r = row; r < std::min(features.rows - row, kWarp) + row; r += kWarp / lanes) {
                read_group(features, row_offsets, col_indices, shift, r, kWarp, lanes, 1, set, tallies[s][2 * i]);
            }
            read_group(features, row_offsets, col_indices, shift, row, kBlock, lanes, kInFlight, set,
                       tallies[s][2 * i + 1]);
        }
    });
    for (int i = 0; i < Features::kLaneCounts; ++i) {
        Tally warp, block;
        for (const auto& tally : tallies) {
            warp.sectors += tally[2 * i].sectors, warp.entries += tally[2 * i].entries;
            block.sectors += tally[2 * i + 1].sectors, block.entries += tally[2 * i + 1].entries;
        }
        features.warp_sectors[i] = warp.per_entry();
        features.block_sectors[i] = block.per_entry();
    }
}

// Different sectors per entry in windows of consecutive entries, of which about kSampled entries are looked at.
double sample_windows(const Features& features, const index_t* col_indices, int shift, index_t window) {
    constexpr index_t kSampled = 1 << 19;
    const index_t windows = features.nnz / window + (features.nnz % window != 0);
    const index_t taken = std::min(windows, std::max<index_t>(2, kSampled / window));
    std::vector<Tally> tallies(taken);
    parallel_for(taken, std::int64_t(taken) * window * 4, [&](index_t s) {
        const auto begin = static_cast<index_t>(part_begin(windows, taken, s)) * window;
        const index_t end = std::min(features.nnz - begin, window) + begin;
        SectorSet set(2 * (end - begin));
        for (index_t i = begin; i < end; ++i) set.add(col_indices[i] >> shift);
        tallies[s] = {static_cast<double>(set.count()), static_cast<double>(end - begin)};
    });
    Tally total;
    for (const Tally& tally : tallies) total.sectors += tally.sectors, total.entries += tally.entries;
    return total.per_entry();
}

}  // namespace

Features extract_features(index_t rows, index_t cols, const index_t* row_offsets, const index_t* col_indices,
                          int item_bytes) {
    Features features;
    features.rows = rows;
    features.cols = cols;
    features.nnz = row_offsets[rows];
    const int shift = sector_shift(item_bytes);
    read_row_lengths(features, row_offsets);
    sample_groups(features, row_offsets, col_indices, shift);
    features.run_sectors = sample_windows(features, col_indices, shift, Features::kRun);
    features.long_run_sectors = sample_windows(features, col_indices, shift, Features::kLongRun);
    return features;
}

}  // namespace spmvgpu
