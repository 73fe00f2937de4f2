// The features of a matrix on any device, as passes over it; see core/passes/passes.hpp.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/passes/bits.hpp"
#include "core/passes/sectors.hpp"
#include "formats/features.hpp"
#include "formats/shared/node_rows.hpp"

namespace spmvgpu::feature_passes {

struct RowLengths {
    std::int64_t empty = 0, longest = 0, squares = 0;
    std::int64_t steps[Features::kLaneCounts] = {}, longer[Features::kBlockCounts] = {};

    constexpr RowLengths& operator+=(const RowLengths& other) {
        empty += other.empty;
        longest = std::max(longest, other.longest);
        squares += other.squares;
        for (int i = 0; i < Features::kLaneCounts; ++i) steps[i] += other.steps[i];
        for (int i = 0; i < Features::kBlockCounts; ++i) longer[i] += other.longer[i];
        return *this;
    }
};

constexpr RowLengths read_warp(const index_t* row_offsets, index_t rows, index_t warp) {
    constexpr index_t kWarp = Features::kWarp;
    RowLengths found;
    const index_t begin = warp * kWarp, end = std::min(rows - begin, kWarp) + begin;
    index_t limits[Features::kBlockCounts];
    for (int i = 0; i < Features::kBlockCounts; ++i) {
        const index_t threads = (row_offsets[end] - row_offsets[begin]) >> (i + 1);
        limits[i] = Features::kPerLane * Features::lanes(end - begin, threads);
    }
    // The longest rows of groups of 1, 2, 4, ... rows: a level of 2^g rows corresponds to 32 / 2^g lanes a row.
    index_t lengths[kWarp] = {};
    for (index_t row = begin; row < end; ++row) {
        const index_t length = row_offsets[row + 1] - row_offsets[row];
        lengths[row - begin] = length;
        found.empty += length == 0;
        found.squares += std::int64_t(length) * length;
        for (int i = 0; i < Features::kBlockCounts; ++i) found.longer[i] += length > limits[i];
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
    features.deviation = std::sqrt(std::max(0.0, squares / count - features.mean * features.mean));
    std::copy(std::begin(found.steps), std::end(found.steps), features.warp_steps.begin());
    std::copy(std::begin(found.longer), std::end(found.longer), features.longer.begin());
}

// Kinds of samples, of a few rows spread evenly or of values. The sampled numbers are diagonals, counted from the lower
// left corner, or keys that two different rows, or values, hardly ever share.
enum class Sample { kDiagonals, kRows, kValues, kCount };

struct FewOf {
    Sample what;
    Tally* tally;
    AnyCsr csr;
    index_t runs;  // sampled rows, or 1 if all values are one run

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
    constexpr std::uint64_t key_of_sampled_value(index_t i, index_t samples) const {
        return key_of_value(static_cast<index_t>(sample_place(csr.nnz, samples, i)), 0);
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
    // A key of a value and its place, which may be any number.
    constexpr std::uint64_t key_of_value(index_t k, std::int64_t place) const {
        const int words = csr.item_bytes / static_cast<int>(sizeof(Word));
        std::uint64_t key = 0;
        for (int w = 0; w < words; ++w) key += mixed(csr.values[std::int64_t(k) * words + w], place * words + w);
        return key;
    }
};

struct Sampled {
    Tally run, long_run;  // sectors and entries
    Tally rows;  // entries of a sample of rows; `different` without rows that repeat the columns of the one before
    Tally few[static_cast<int>(Sample::kCount)];

    constexpr Tally& of(Sample what) { return few[static_cast<int>(what)]; }
};

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

template <class Passes>
void sample_repeated_rows(Passes& passes, const AnyCsr& csr, Sampled* sampled) {
    constexpr std::int64_t kNanosecondsPerRow = 200;
    const index_t rows = csr.rows, count = std::min(rows, Features::kNodeSample);
    const index_t *const row_offsets = csr.row_offsets, *const cols = csr.col_indices;
    passes.each_in_step(
        count,
        [=] SPMVGPU_BODY(const auto& lanes, std::int64_t i) {
            const auto row = static_cast<index_t>(sample_place(rows, count, i));
            const std::int64_t length = row_offsets[row + 1] - row_offsets[row];
            const bool repeats = row > 0 && node_rows::repeats(lanes, row_offsets, cols, row, kAllEntries);
            lanes.once([&] { add_to_tally(&sampled->rows, {repeats ? 0 : length, length}); });
        },
        kNanosecondsPerRow);
}

inline double node_rows_of(const Tally& rows) {
    const double others = static_cast<double>(std::max<std::int64_t>(rows.different, 1));
    return std::clamp<double>(static_cast<double>(rows.all) / others, 1, Features::kNodeRows);
}

constexpr index_t kInWindows = 1 << 18;

constexpr Features of_sizes(const AnyCsr& csr) {
    Features features;
    features.rows = csr.rows;
    features.cols = csr.cols;
    features.nnz = csr.nnz;
    features.mean = features.nnz / double(std::max<index_t>(csr.rows, 1));
    return features;
}

// Features by which a format chooses its options: all known ones, or the ones it needs. These are the sizes on the CPU,
// and on a GPU the lengths of rows and, unless the matrix is small, the sectors of x.
template <class Passes>
Features for_options(Passes& passes, const AnyCsr& csr, const Target& target) {
    if (target.features != nullptr) return *target.features;
    const int shift = sector_shift(csr.item_bytes);
    Features features = of_sizes(csr);
    if (!target.device.is_gpu()) return features;
    if (csr.nnz < Features::kSmall) {
        read_row_lengths(passes, features, csr.row_offsets);
        return features;
    }
    Array<Sampled> tallies = passes.template scratch<Sampled>(1);
    Sampled* const sampled = tallies.data();
    passes.fill(sampled, 1, Sampled{});
    sample_windows(passes, csr.nnz, csr.col_indices, shift, Features::kRun, kInWindows, &sampled->run);
    sample_repeated_rows(passes, csr, sampled);
    read_row_lengths(passes, features, csr.row_offsets);
    const Sampled found = passes.read(sampled);
    features.run_sectors = sectors_per_entry(found.run);
    features.node_rows = node_rows_of(found.rows);
    return features;
}

// All samples are counted before the first result is waited for.
template <class Passes>
Features extract(Passes& passes, const AnyCsr& csr) {
    Features features = of_sizes(csr);
    const int shift = sector_shift(csr.item_bytes);
    Array<Sampled> tallies = passes.template scratch<Sampled>(1);
    Sampled* const sampled = tallies.data();
    passes.fill(sampled, 1, Sampled{});
    sample_windows(passes, csr.nnz, csr.col_indices, shift, Features::kRun, kInWindows, &sampled->run);
    sample_windows(passes, csr.nnz, csr.col_indices, shift, Features::kLongRun, kInWindows, &sampled->long_run);
    sample_rows_and_values(passes, csr, sampled);
    sample_repeated_rows(passes, csr, sampled);
    read_row_lengths(passes, features, csr.row_offsets);
    Sampled found = passes.read(sampled);
    features.run_sectors = sectors_per_entry(found.run);
    features.long_run_sectors = sectors_per_entry(found.long_run);
    features.node_rows = node_rows_of(found.rows);
    features.diagonals = static_cast<index_t>(found.of(Sample::kDiagonals).different);
    features.different_rows = static_cast<index_t>(found.of(Sample::kRows).different);
    features.different_values = static_cast<index_t>(found.of(Sample::kValues).different);
    return features;
}

}  // namespace spmvgpu::feature_passes
