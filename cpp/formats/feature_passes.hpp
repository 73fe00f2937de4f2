// The features of a matrix on any device, as passes over it; see core/passes/passes.hpp.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/passes/bits.hpp"
#include "core/passes/sectors.hpp"
#include "formats/features.hpp"

namespace spmvgpu::feature_passes {

struct RowLengths {
    std::int64_t empty = 0, longest = 0, squares = 0;
    std::int64_t steps[Features::kLaneCounts] = {}, longer[Features::kLaneCounts] = {};

    constexpr RowLengths& operator+=(const RowLengths& other) {
        empty += other.empty;
        longest = std::max(longest, other.longest);
        squares += other.squares;
        for (int i = 0; i < Features::kLaneCounts; ++i) {
            steps[i] += other.steps[i];
            longer[i] += other.longer[i];
        }
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
        for (int i = 0; i < Features::kLaneCounts; ++i) found.longer[i] += length > Features::kPerLane << i;
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
        warps, [=] SPMVGPU_BODY(std::int64_t warp) { return read_warp(row_offsets, rows, static_cast<index_t>(warp)); },
        kNanosecondsPerWarp);
    const double count = std::max<index_t>(rows, 1), squares = static_cast<double>(found.squares);
    features.empty_rows = static_cast<index_t>(found.empty);
    features.longest = static_cast<index_t>(found.longest);
    features.mean = features.nnz / count;
    features.deviation = std::sqrt(std::max(0.0, squares / count - features.mean * features.mean));
    std::copy(std::begin(found.steps), std::end(found.steps), features.warp_steps.begin());
    std::copy(std::begin(found.longer), std::end(found.longer), features.longer.begin());
}

// Loads at once beyond which no more of a group are looked at: where one row is far longer than the others, most rounds
// are its alone.
constexpr index_t kMaxRounds = 64, kMaxEntries = 2048;

// What a group of threads loads in its rounds, 2^step_log entries of each row in a round. Its numbers are sectors with
// the round before them, so that the different ones are those of every round, added up.
struct GroupOfRows {
    Tally* tally;
    index_t runs;  // rows
    const index_t *row_offsets, *col_indices;
    int shift, step_log;
    index_t rounds;

    // Entries of the first `before` rounds.
    constexpr index_t entries(index_t before) const {
        const index_t most = before << step_log;
        index_t sum = 0;
        for (index_t i = 0; i < runs; ++i) sum += std::min(std::max(row_offsets[i + 1] - row_offsets[i], 0), most);
        return sum;
    }
    // Rounds begin as long as fewer entries were loaded before.
    constexpr void limit_rounds() {
        index_t least = 1;
        while (least < rounds) {
            const index_t middle = (least + rounds) / 2;
            if (entries(middle) < kMaxEntries) {
                least = middle + 1;
            } else {
                rounds = middle;
            }
        }
    }
    constexpr Run run(index_t i) const {
        const std::int64_t stop = row_offsets[i] + (std::int64_t(rounds) << step_log);
        return {row_offsets[i], static_cast<index_t>(std::min<std::int64_t>(row_offsets[i + 1], stop))};
    }
    constexpr std::int64_t number(const Run& run, index_t k) const {
        return std::int64_t((k - run.begin) >> step_log) << 32 | (col_indices[k] >> shift);
    }
};

// What is sampled of a few rows that are spread evenly, or of values. Numbers are diagonals, counted from the lower
// left corner; or keys, which hardly two different rows, or values, share.
enum class Sample { kDiagonals, kRows, kValues, kCount };

struct FewOf {
    Sample what;
    Tally* tally;
    AnyCsr csr;
    index_t runs;  // rows, or one of all values

    struct RowRun : Run {
        index_t row;
    };
    constexpr RowRun run(index_t i) const {
        constexpr index_t kMost = Features::kDiagonalEntries, kValues = Features::kFewValues;
        if (what == Sample::kValues) return {{0, csr.nnz < kValues ? csr.nnz : kValues}, 0};
        const auto row = static_cast<index_t>(std::int64_t(csr.rows) * i / runs);
        const index_t begin = csr.row_offsets[row], length = csr.row_offsets[row + 1] - begin;
        if (what == Sample::kRows) return {{begin, begin + 1}, row};
        return {{begin, begin + (length < kMost ? length : kMost)}, row};
    }
    constexpr std::int64_t number(const RowRun& run, index_t k) const {
        if (what == Sample::kDiagonals) return std::int64_t(csr.rows) - 1 - run.row + csr.col_indices[k];
        const std::uint64_t key = what == Sample::kRows ? key_of_row(run.row) : key_of_sampled_value(k, run.end);
        return static_cast<std::int64_t>(key >> (64 - kNumberBits));
    }

private:
    constexpr std::uint64_t key_of_sampled_value(index_t i, index_t taken) const {
        return key_of_value(static_cast<index_t>(sample_place(csr.nnz, taken, i)), 0);
    }
    constexpr std::uint64_t key_of_row(index_t row) const {
        constexpr index_t kMost = Features::kRowEntries;
        const index_t begin = csr.row_offsets[row], length = csr.row_offsets[row + 1] - begin;
        std::uint64_t key = mixed(length, -1);
        for (index_t k = begin; k < begin + (length < kMost ? length : kMost); ++k) {
            key += key_of_value(k, std::int64_t(csr.col_indices[k]) - row);
        }
        return key;
    }
    // At a place, which may be any number.
    constexpr std::uint64_t key_of_value(index_t k, std::int64_t place) const {
        const int words = csr.item_bytes / static_cast<int>(sizeof(Word));
        std::uint64_t key = 0;
        for (int w = 0; w < words; ++w) key += mixed(csr.values[std::int64_t(k) * words + w], place * words + w);
        return key;
    }
};

// Sectors and entries, with 1, 2, 4, ... lanes a row where there are several.
struct Sampled {
    Tally warps[Features::kLaneCounts], blocks[Features::kLaneCounts], run, long_run;
    Tally few[static_cast<int>(Sample::kCount)];

    constexpr Tally& of(Sample what) { return few[static_cast<int>(what)]; }
};

// A sample is a thread block's rows: with 2^i lanes a row the block, and as many warps as have kWarp rows together.
template <class Passes>
void sample_groups(Passes& passes, const Features& features, const index_t* row_offsets, const index_t* col_indices,
                   int shift, Sampled* sampled) {
    constexpr index_t kWarp = Features::kWarp, kBlock = Features::kBlock, kInFlight = Features::kInFlight;
    constexpr int kLaneCounts = Features::kLaneCounts, kInFlightLog = std::countr_zero(unsigned(kInFlight));
    constexpr index_t kSamples = 64, kWarps = (1 << kLaneCounts) - 1;
    const index_t rows = features.rows, blocks = rows / kBlock + (rows % kBlock != 0);
    const index_t samples = std::min(blocks, kSamples);
    const std::int64_t block_groups = std::int64_t(samples) * kLaneCounts;  // first, for they take longest
    const std::int64_t work = std::min<std::int64_t>(1500, features.nnz / 2 + 1);
    passes.template distinct<GroupOfRows>(
        block_groups + std::int64_t(samples) * kWarps, std::min(features.nnz, kMaxEntries - 1 + kBlock * kInFlight),
        [=] SPMVGPU_BODY(std::int64_t g) {
            const bool is_block = g < block_groups;
            const std::int64_t s = is_block ? g / kLaneCounts : (g - block_groups) / kWarps;
            const auto place = static_cast<int>(is_block ? g % kLaneCounts : (g - block_groups) % kWarps);
            int lanes_log = is_block ? place : 0;  // the first warp has one lane a row, the next two have two, ...
            while (!is_block && 2 << lanes_log <= place + 1) ++lanes_log;
            const index_t in_warp = kWarp >> lanes_log;
            const auto row = static_cast<index_t>(blocks / samples * s + blocks % samples * s / samples) * kBlock;
            const index_t first = is_block ? 0 : (place + 1 - (1 << lanes_log)) * in_warp;
            const index_t most = is_block ? kBlock >> lanes_log : in_warp;
            GroupOfRows group{is_block ? &sampled->blocks[lanes_log] : &sampled->warps[lanes_log],
                              std::min(rows - row - first, most),
                              row_offsets + row + first,
                              col_indices,
                              shift,
                              is_block ? lanes_log + kInFlightLog : lanes_log,
                              kMaxRounds};
            if (is_block) group.limit_rounds();  // a warp has no more entries in all of its rounds
            return group;
        },
        work);
}

template <class Passes>
void sample_rows_and_values(Passes& passes, const AnyCsr& csr, Sampled* sampled) {
    constexpr index_t kRows = Features::kFewRows, kMost = kRows * Features::kDiagonalEntries;
    const index_t rows = std::min(csr.rows, kRows);
    passes.template distinct<FewOf>(
        static_cast<int>(Sample::kCount), std::max(rows, std::min(csr.nnz, kMost)),
        [=] SPMVGPU_BODY(std::int64_t g) {
            const auto what = static_cast<Sample>(g);
            return FewOf{what, &sampled->of(what), csr, what == Sample::kValues ? 1 : rows};
        },
        10 * kMost);
}

constexpr index_t kInWindows = 1 << 18;

// What options are chosen by: the lengths of rows, and of matrices that are not small the sectors of x.
template <class Passes>
Features of_lengths_and_runs(Passes& passes, const AnyCsr& csr) {
    const int shift = sector_shift(csr.item_bytes);
    Features features;
    features.rows = csr.rows;
    features.cols = csr.cols;
    features.nnz = csr.nnz;
    if (csr.nnz < Features::kSmall) {
        read_row_lengths(passes, features, csr.row_offsets);
        return features;
    }
    Array<Sampled> tallies = passes.template scratch<Sampled>(1);
    Sampled* const sampled = tallies.data();
    passes.fill(sampled, 1, Sampled{});
    sample_windows(passes, csr.nnz, csr.col_indices, shift, Features::kRun, kInWindows, &sampled->run);
    read_row_lengths(passes, features, csr.row_offsets);
    features.run_sectors = sectors_per_entry(passes.read(sampled).run);
    return features;
}

// The samples are counted first, all of them without waiting for any.
template <class Passes>
Features extract(Passes& passes, const AnyCsr& csr) {
    Features features;
    features.rows = csr.rows;
    features.cols = csr.cols;
    features.nnz = csr.nnz;
    const int shift = sector_shift(csr.item_bytes);
    Array<Sampled> tallies = passes.template scratch<Sampled>(1);
    Sampled* const sampled = tallies.data();
    passes.fill(sampled, 1, Sampled{});
    sample_groups(passes, features, csr.row_offsets, csr.col_indices, shift, sampled);
    sample_windows(passes, csr.nnz, csr.col_indices, shift, Features::kRun, kInWindows, &sampled->run);
    sample_windows(passes, csr.nnz, csr.col_indices, shift, Features::kLongRun, kInWindows, &sampled->long_run);
    sample_rows_and_values(passes, csr, sampled);
    read_row_lengths(passes, features, csr.row_offsets);
    Sampled found = passes.read(sampled);
    for (int i = 0; i < Features::kLaneCounts; ++i) {
        features.warp_sectors[i] = sectors_per_entry(found.warps[i]);
        features.block_sectors[i] = sectors_per_entry(found.blocks[i]);
    }
    features.run_sectors = sectors_per_entry(found.run);
    features.long_run_sectors = sectors_per_entry(found.long_run);
    features.diagonals = static_cast<index_t>(found.of(Sample::kDiagonals).different);
    features.different_rows = static_cast<index_t>(found.of(Sample::kRows).different);
    features.different_values = static_cast<index_t>(found.of(Sample::kValues).different);
    return features;
}

}  // namespace spmvgpu::feature_passes
