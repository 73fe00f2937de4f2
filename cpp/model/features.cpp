#include "model/features.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/parallel.hpp"

namespace spmvgpu {

namespace {

constexpr index_t kWarp = Features::kWarp;

// Columns that share a 32-byte sector of x, as a shift.
int sector_shift(int item_bytes) { return item_bytes == 4 ? 3 : 2; }

// Counts the different sectors among those added since the last clear(); forgets in constant time.
class SectorSet {
public:
    explicit SectorSet(int bits) : mask_((std::size_t(1) << bits) - 1), slots_(mask_ + 1) {}

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
    std::vector<Slot> slots_;
    std::uint32_t round_ = 0;
    std::int64_t count_ = 0;
};

void read_row_lengths(Features& features, const index_t* row_offsets) {
    const index_t rows = features.rows, warps = rows / kWarp + (rows % kWarp != 0);
    std::int64_t empty = 0;
    index_t longest = 0;
    double squares = 0;
    double steps[Features::kLaneCounts] = {};
#pragma omp parallel for num_threads(threads_for(rows)) reduction(+ : empty, squares, steps) reduction(max : longest)
    for (index_t warp = 0; warp < warps; ++warp) {
        const index_t begin = warp * kWarp, end = std::min(rows - begin, kWarp) + begin;
        // The longest of groups of one row, of two, of four, ...: a level of 2^g rows goes with 32 / 2^g lanes a row.
        index_t lengths[kWarp] = {};
        for (index_t row = begin; row < end; ++row) {
            const index_t length = row_offsets[row + 1] - row_offsets[row];
            lengths[row - begin] = length;
            empty += length == 0;
            squares += double(length) * length;
        }
        for (int level = 0; level < Features::kLaneCounts; ++level) {
            const int lanes_log = Features::kLaneCounts - 1 - level, groups = kWarp >> level;
            std::int64_t sum = 0;
            for (int g = 0; g < groups; ++g) {
                if (level > 0) lengths[g] = std::max(lengths[2 * g], lengths[2 * g + 1]);
                sum += (std::int64_t(lengths[g]) + (1 << lanes_log) - 1) >> lanes_log;
            }
            steps[lanes_log] += static_cast<double>(sum);
        }
        longest = std::max(longest, lengths[0]);
    }
    features.empty_rows = static_cast<index_t>(empty);
    features.longest = longest;
    features.mean = double(features.nnz) / std::max<index_t>(rows, 1);
    features.deviation = std::sqrt(std::max(0.0, squares / std::max<index_t>(rows, 1) - features.mean * features.mean));
    std::copy(std::begin(steps), std::end(steps), features.warp_steps.begin());
}

// Sectors of the loads of one warp that begins at `row`, with `lanes` lanes a row: added to `sectors` and `entries`.
void read_warp(const Features& features, const index_t* row_offsets, const index_t* col_indices, int shift, index_t row,
               int lanes, SectorSet& set, double& sectors, double& entries) {
    constexpr index_t kMaxEntries = 1024;
    const index_t end = std::min(features.rows - row, kWarp / lanes) + row;
    index_t longest = 0, seen = 0;
    for (index_t r = row; r < end; ++r) longest = std::max(longest, row_offsets[r + 1] - row_offsets[r]);
    for (index_t k = 0; k < longest && seen < kMaxEntries; k += lanes) {
        set.clear();
        for (index_t r = row; r < end; ++r) {
            const index_t stop = std::min(row_offsets[r + 1], row_offsets[r] + k + lanes);
            for (index_t i = row_offsets[r] + k; i < stop; ++i, ++seen) set.add(col_indices[i] >> shift);
        }
        sectors += static_cast<double>(set.count());
    }
    entries += seen;
}

void sample_warps(Features& features, const index_t* row_offsets, const index_t* col_indices, int shift) {
    constexpr index_t kSamples = 256;
    const index_t warps = features.rows / kWarp + (features.rows % kWarp != 0), samples = std::min(warps, kSamples);
    double sectors[Features::kLaneCounts] = {}, entries[Features::kLaneCounts] = {};
#pragma omp parallel num_threads(threads_for(std::int64_t(samples) * 20'000)) reduction(+ : sectors, entries)
    {
        SectorSet set(7);
#pragma omp for
        for (index_t s = 0; s < samples; ++s) {
            const auto begin = static_cast<index_t>(part_begin(warps, samples, s)) * kWarp;
            for (int i = 0; i < Features::kLaneCounts; ++i) {
                // All warps of these 32 rows, or as many as there are samples enough.
                const index_t step = kWarp >> i, end = std::min(features.rows - begin, std::min(kWarp, 4 * step));
                for (index_t row = begin; row < begin + end; row += step) {
                    read_warp(features, row_offsets, col_indices, shift, row, 1 << i, set, sectors[i], entries[i]);
                }
            }
        }
    }
    for (int i = 0; i < Features::kLaneCounts; ++i) features.warp_sectors[i] = sectors[i] / std::max(entries[i], 1.0);
}

// Different sectors per entry in up to `samples` windows of consecutive entries.
double sample_windows(const Features& features, const index_t* col_indices, int shift, index_t window, int set_bits,
                      index_t samples) {
    const index_t windows = features.nnz / window + (features.nnz % window != 0), taken = std::min(windows, samples);
    std::int64_t sectors = 0, entries = 0;
#pragma omp parallel num_threads(threads_for(std::int64_t(taken) * window * 4)) reduction(+ : sectors, entries)
    {
        SectorSet set(set_bits);
#pragma omp for
        for (index_t s = 0; s < taken; ++s) {
            const auto begin = static_cast<index_t>(part_begin(windows, taken, s)) * window;
            const index_t end = std::min(features.nnz - begin, window) + begin;
            set.clear();
            for (index_t i = begin; i < end; ++i) set.add(col_indices[i] >> shift);
            sectors += set.count();
            entries += end - begin;
        }
    }
    return static_cast<double>(sectors) / static_cast<double>(std::max<std::int64_t>(entries, 1));
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
    sample_warps(features, row_offsets, col_indices, shift);
    features.block_sectors = sample_windows(features, col_indices, shift, Features::kBlockWindow, 13, 128);
    features.cache_sectors = sample_windows(features, col_indices, shift, Features::kCacheWindow, 20, 2);
    return features;
}

}  // namespace spmvgpu
