// The features of a matrix on any device, as passes over it; see passes/passes.hpp. The CPU reads row lengths as these
// passes do, and looks at columns in its own way, which finds the same: features.cpp.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>

#include "model/features.hpp"
#include "passes/passes.hpp"

namespace spmvgpu::feature_passes {

// Columns that share a 32-byte sector of x, as a shift.
constexpr int sector_shift(int item_bytes) { return std::countr_zero(32u / static_cast<unsigned>(item_bytes)); }

struct RowLengths {
    std::int64_t empty = 0, longest = 0, squares = 0;
    std::int64_t steps[Features::kLaneCounts] = {};

    constexpr RowLengths& operator+=(const RowLengths& other) {
        empty += other.empty;
        longest = std::max(longest, other.longest);
        squares += other.squares;
        for (int i = 0; i < Features::kLaneCounts; ++i) steps[i] += other.steps[i];
        return *this;
    }
};

// Of the rows of one warp.
constexpr RowLengths read_warp(const index_t* row_offsets, index_t rows, index_t warp) {
    constexpr index_t kWarp = Features::kWarp;
    RowLengths found;
    const index_t begin = warp * kWarp, end = std::min(rows - begin, kWarp) + begin;
    // The longest of groups of one row, of two, of four, ...: a level of 2^g rows goes with 32 / 2^g lanes a row.
    index_t lengths[kWarp] = {};
    for (index_t row = begin; row < end; ++row) {
        const index_t length = row_offsets[row + 1] - row_offsets[row];
        lengths[row - begin] = length;
        found.empty += length == 0;
        found.squares += std::int64_t(length) * length;
    }
    for (int level = 0; level < Features::kLaneCounts; ++level) {
        const int lanes_log = Features::kLaneCounts - 1 - level, groups = kWarp >> level;
        for (int g = 0; g < groups; ++g) {
            if (level > 0) lengths[g] = std::max(lengths[2 * g], lengths[2 * g + 1]);
            found.steps[lanes_log] += (std::int64_t(lengths[g]) + (1 << lanes_log) - 1) >> lanes_log;
        }
    }
    found.longest = lengths[0];
    return found;
}

template <class Passes>
void read_row_lengths(Passes& passes, Features& features, const index_t* row_offsets) {
    const index_t rows = features.rows, warps = rows / Features::kWarp + (rows % Features::kWarp != 0);
    constexpr std::int64_t kNanosecondsPerWarp = 4 * Features::kWarp;
    const auto found = passes.template reduce<RowLengths>(
        warps, SPMVGPU_BODY(std::int64_t warp) { return read_warp(row_offsets, rows, static_cast<index_t>(warp)); },
        kNanosecondsPerWarp);
    const double count = std::max<index_t>(rows, 1), squares = static_cast<double>(found.squares);
    features.empty_rows = static_cast<index_t>(found.empty);
    features.longest = static_cast<index_t>(found.longest);
    features.mean = features.nnz / count;
    features.deviation = std::sqrt(std::max(0.0, squares / count - features.mean * features.mean));
    std::copy(std::begin(found.steps), std::end(found.steps), features.warp_steps.begin());
}

// Counts the different sectors among those added since the last clear(); forgets in constant time. `slots` are zeros at
// first, a power of two of them, and more than are added between two calls of clear().
struct SectorSlot {
    std::uint32_t round;
    index_t sector;
};
class SectorSet {
public:
    constexpr SectorSet(SectorSlot* slots, std::uint32_t count) : slots_(slots), mask_(count - 1) {}

    constexpr void clear() { ++round_, count_ = 0; }
    constexpr void add(index_t sector) {
        std::uint32_t at = static_cast<std::uint32_t>(sector) * std::uint32_t(2654435761u) >> 7 & mask_;
        for (; slots_[at].round == round_; at = (at + 1) & mask_) {
            if (slots_[at].sector == sector) return;
        }
        slots_[at] = {round_, sector};
        ++count_;
    }
    constexpr std::int64_t count() const { return count_; }

private:
    SectorSlot* slots_;
    std::uint32_t mask_;
    std::uint32_t round_ = 1;  // of no slot yet
    std::int64_t count_ = 0;
};

struct Tally {
    std::int64_t sectors = 0, entries = 0;

    constexpr Tally& operator+=(const Tally& other) {
        sectors += other.sectors;
        entries += other.entries;
        return *this;
    }
    double per_entry() const {
        return static_cast<double>(sectors) / static_cast<double>(std::max<std::int64_t>(entries, 1));
    }
};

// With 1, 2, 4, ... lanes a row.
struct Tallies {
    Tally of[Features::kLaneCounts];

    constexpr Tallies& operator+=(const Tallies& other) {
        for (int i = 0; i < Features::kLaneCounts; ++i) of[i] += other.of[i];
        return *this;
    }
};

// What a group of `threads` threads, `lanes` of them for each row from `row` on, loads `in_flight` times at once: its
// different sectors, added up over all rounds or enough of them: where one row is far longer than the others, most
// rounds are its alone.
constexpr Tally read_group(index_t rows, const index_t* row_offsets, const index_t* col_indices, int shift, index_t row,
                           index_t threads, index_t lanes, index_t in_flight, SectorSet& set) {
    constexpr index_t kMaxEntries = 2048, kMaxRounds = 64;
    Tally tally;
    const index_t end = std::min(rows - row, threads / lanes) + row;
    std::int64_t longest = 0;
    for (index_t r = row; r < end; ++r) longest = std::max<std::int64_t>(longest, row_offsets[r + 1] - row_offsets[r]);
    const std::int64_t step = lanes * in_flight, limit = std::min(longest, kMaxRounds * step);
    for (std::int64_t k = 0; k < limit && tally.entries < kMaxEntries; k += step) {
        set.clear();
        for (index_t r = row; r < end; ++r) {
            const std::int64_t stop = std::min<std::int64_t>(row_offsets[r + 1], row_offsets[r] + k + step);
            for (std::int64_t i = row_offsets[r] + k; i < stop; ++i, ++tally.entries) set.add(col_indices[i] >> shift);
        }
        tally.sectors += set.count();
    }
    return tally;
}

// Blocks of rows whose groups are looked at.
constexpr index_t kSamples = 64;

// The groups of a sample: with 2^i lanes a row as many warps as have kWarp rows together, and one block.
constexpr int kWarps = (1 << Features::kLaneCounts) - 1, kGroups = kWarps + Features::kLaneCounts;
// More slots than a warp and a block have entries in flight.
constexpr std::uint32_t kWarpSlots = 2 * Features::kWarp;
constexpr std::uint32_t kBlockSlots = 2 * Features::kBlock * Features::kInFlight;
constexpr std::int64_t kSampleSlots = std::int64_t(kWarps) * kWarpSlots + Features::kLaneCounts * kBlockSlots;

template <class Passes>
void sample_groups(Passes& passes, Features& features, const index_t* row_offsets, const index_t* col_indices,
                   int shift) {
    constexpr index_t kWarp = Features::kWarp, kBlock = Features::kBlock;
    const index_t rows = features.rows, blocks = rows / kBlock + (rows % kBlock != 0);
    const index_t samples = std::min(blocks, kSamples);
    Array<SectorSlot> all_slots = passes.template scratch<SectorSlot>(samples * kSampleSlots);
    Array<Tally> tallies = passes.template scratch<Tally>(std::size_t(samples) * kGroups);
    SectorSlot* const slots = all_slots.data();
    Tally* const tally = tallies.data();
    passes.fill(slots, samples * kSampleSlots, SectorSlot{0, 0});
    constexpr std::int64_t kNanosecondsPerGroup = 10'000;
    passes.each(
        std::int64_t(samples) * kGroups,
        SPMVGPU_BODY(std::int64_t item) {
            const std::int64_t s = item / kGroups;
            const int group = static_cast<int>(item % kGroups);
            const auto row = static_cast<index_t>(blocks / samples * s + blocks % samples * s / samples) * kBlock;
            SectorSlot* const own = slots + s * kSampleSlots;
            tally[item] = {};
            if (group >= kWarps) {
                const int i = group - kWarps;
                SectorSet set(own + std::int64_t(kWarps) * kWarpSlots + i * std::int64_t(kBlockSlots), kBlockSlots);
                tally[item] =
                    read_group(rows, row_offsets, col_indices, shift, row, kBlock, 1 << i, Features::kInFlight, set);
                return;
            }
            int lanes = 1;  // one warp of one lane a row, then two of two, four of four, ...
            while (2 * lanes <= group + 1) lanes *= 2;
            const index_t first = (group + 1 - lanes) * (kWarp / lanes);  // row of the sample that the warp begins with
            if (first >= rows - row) return;
            SectorSet set(own + group * std::int64_t(kWarpSlots), kWarpSlots);
            tally[item] = read_group(rows, row_offsets, col_indices, shift, row + first, kWarp, lanes, 1, set);
        },
        kNanosecondsPerGroup);
    const auto warps = passes.template reduce<Tallies>(
        samples, SPMVGPU_BODY(std::int64_t s) {
            Tallies sums;
            for (int i = 0, group = 0; i < Features::kLaneCounts; ++i) {
                for (int end = group + (1 << i); group < end; ++group) sums.of[i] += tally[s * kGroups + group];
            }
            return sums;
        });
    const auto blocks_found = passes.template reduce<Tallies>(
        samples, SPMVGPU_BODY(std::int64_t s) {
            Tallies sums;
            for (int i = 0; i < Features::kLaneCounts; ++i) sums.of[i] = tally[s * kGroups + kWarps + i];
            return sums;
        });
    for (int i = 0; i < Features::kLaneCounts; ++i) {
        features.warp_sectors[i] = warps.of[i].per_entry();
        features.block_sectors[i] = blocks_found.of[i].per_entry();
    }
}

// Windows of consecutive entries that are looked at, so that they have about kSampled entries together.
constexpr index_t windows_taken(index_t windows, index_t window) {
    constexpr index_t kSampled = 1 << 19;
    return std::min(windows, std::max<index_t>(2, kSampled / window));
}

// Different sectors per entry in windows of consecutive entries.
template <class Passes>
double sample_windows(Passes& passes, const Features& features, const index_t* col_indices, int shift, index_t window) {
    const index_t nnz = features.nnz, windows = nnz / window + (nnz % window != 0);
    const index_t taken = windows_taken(windows, window), places = taken * window;
    const index_t none = (features.cols >> shift) + 1;  // the sector of a place behind the last entry
    const auto sector_at = SPMVGPU_BODY(index_t place)->index_t {
        const std::int64_t s = place / window;
        const std::int64_t k = (windows / taken * s + windows % taken * s / taken) * window + place % window;
        return k < nnz ? col_indices[k] >> shift : none;
    };
    const Array<index_t> sorted = passes.order_by_key(places, window, none, sector_at);
    const index_t* const order = sorted.data();
    const auto total = passes.template reduce<Tally>(
        places, SPMVGPU_BODY(std::int64_t i) {
            const index_t sector = sector_at(order[i]);
            const bool is_new = i % window == 0 || sector_at(order[i - 1]) != sector;
            return Tally{is_new && sector != none, sector != none};
        });
    return total.per_entry();
}

template <class Passes>
Features extract(Passes& passes, index_t rows, index_t cols, index_t nnz, const index_t* row_offsets,
                 const index_t* col_indices, int item_bytes) {
    Features features;
    features.rows = rows;
    features.cols = cols;
    features.nnz = nnz;
    const int shift = sector_shift(item_bytes);
    read_row_lengths(passes, features, row_offsets);
    sample_groups(passes, features, row_offsets, col_indices, shift);
    features.run_sectors = sample_windows(passes, features, col_indices, shift, Features::kRun);
    features.long_run_sectors = sample_windows(passes, features, col_indices, shift, Features::kLongRun);
    return features;
}

}  // namespace spmvgpu::feature_passes
