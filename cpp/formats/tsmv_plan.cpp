#include "formats/tsmv_plan.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>

#include "core/parallel.hpp"

namespace spmvgpu {

namespace {

constexpr index_t kWarp = 32;
constexpr std::size_t kMaxSharedBytes = 96 << 10;  // two blocks fit a multiprocessor of an H200, one that of any other
constexpr index_t kMaxRowEntries = 4096;           // a longer row is a hub; with this a tile of one row always fits

// The halo of a tile: the columns that it has entries in and that are not its own rows. A bit for each column of the
// matrix, of which only the words between the first and the last column of the tile are looked at.
class Halo {
public:
    explicit Halo(index_t columns) : bits_(columns / kBits + 1, 0), before_(columns / kBits + 1) {}

    void begin() { first_ = bits_.size(), last_ = 0; }

    void add(index_t column) {
        const std::size_t word = column / kBits;
        bits_[word] |= bit(column);
        first_ = std::min(first_, word);
        last_ = std::max(last_, word + 1);
    }

    // Numbers the columns in ascending order.
    std::vector<index_t> number() {
        index_t count = 0;
        for (std::size_t w = first_; w < last_; ++w) {
            before_[w] = count;
            count += std::popcount(bits_[w]);
        }
        std::vector<index_t> columns(count);
        auto column = columns.begin();
        for (std::size_t w = first_; w < last_; ++w) {
            for (std::uint64_t left = bits_[w]; left != 0; left &= left - 1) {
                *column++ = static_cast<index_t>(w * kBits + std::countr_zero(left));
            }
        }
        return columns;
    }

    index_t number_of(index_t column) const {
        const std::size_t word = column / kBits;
        return before_[word] + std::popcount(bits_[word] & (bit(column) - 1));
    }

    void clear() {
        if (first_ < last_) std::fill(bits_.begin() + first_, bits_.begin() + last_, 0);
    }

private:
    static constexpr index_t kBits = 64;
    static std::uint64_t bit(index_t column) { return std::uint64_t(1) << column % kBits; }

    std::vector<std::uint64_t> bits_;
    std::vector<index_t> before_;  // columns in the words before this one
    std::size_t first_ = 0, last_ = 0;
};

// Plans tiles one after the other; each CPU thread has one.
class Planner {
public:
    Planner(const TsmvPattern& pattern, const TsmvLimits& limits)
        : pattern_(pattern), limits_(limits), halo_(pattern.rows), scheduler_(128 / limits.value_bytes) {}

    void plan(index_t begin, index_t end, std::vector<TsmvTilePlan>& tiles) {
        TsmvTilePlan tile = read_rows(begin, end);
        bool fits = number_columns(tile);
        if (fits) {
            schedule(tile);
            fits = tile.shared_bytes(limits_.value_bytes) <= kMaxSharedBytes;
        }
        if (!fits && tile.rows > 1) {
            // In whole warps, if there are several.
            const index_t half = tile.rows > kWarp ? (tile.rows / 2 + kWarp - 1) / kWarp * kWarp : tile.rows / 2;
            plan(begin, begin + half, tiles);
            plan(begin + half, end, tiles);
            return;
        }
        if (drop_costly_steps(tile)) {
            number_columns(tile);
            schedule(tile);
        }
        count_entries(tile);
        tiles.push_back(std::move(tile));
    }

private:
    // The lower triangle of the rows. Dropped from the outset: all but the last entries of a very long row, and, as the
    // poster has square blocks, what lies left of the block.
    TsmvTilePlan read_rows(index_t begin, index_t end) const {
        TsmvTilePlan tile;
        tile.row_begin = begin;
        tile.rows = end - begin;
        tile.entry_offsets.assign(tile.rows + 1, 0);
        for (index_t row = begin; row < end; ++row) {
            index_t k = pattern_.row_offsets[row];
            while (k < pattern_.row_offsets[row + 1] && pattern_.col_indices[k] <= row) ++k;
            tile.entry_offsets[row - begin + 1] = tile.entry_offsets[row - begin] + (k - pattern_.row_offsets[row]);
        }
        tile.entries.resize(tile.entry_offsets.back());
        for (index_t r = 0; r < tile.rows; ++r) {
            const auto first = tile.entries.begin() + tile.entry_offsets[r];
            const auto last = tile.entries.begin() + tile.entry_offsets[r + 1];
            auto kept = last - std::min<std::ptrdiff_t>(last - first, kMaxRowEntries);
            if (limits_.variant == TsmvVariant::kPoster) {
                const index_t* const cols = pattern_.col_indices + pattern_.row_offsets[begin + r];
                kept = std::max(kept, first + (std::lower_bound(cols, cols + (last - first), begin) - cols));
            }
            for (auto entry = first; entry < kept; ++entry) entry->step = Placement::kDropped;
        }
        return tile;
    }

    // Finds the halo and numbers the columns of all entries. False if they are too many.
    bool number_columns(TsmvTilePlan& tile) {
        halo_.begin();
        for_each_entry(tile, [&](Placement&, index_t column) {
            if (column < tile.row_begin) halo_.add(column);
        });
        tile.halo_columns = halo_.number();
        const bool fits = 2 * std::size_t(tile.local_columns()) * limits_.value_bytes <= kMaxSharedBytes;
        if (fits) {
            for_each_entry(tile, [&](Placement& entry, index_t column) {
                const index_t local =
                    column < tile.row_begin ? tile.rows + halo_.number_of(column) : column - tile.row_begin;
                entry.column = static_cast<std::uint16_t>(local);
            });
        }
        halo_.clear();
        return fits;
    }

    template <class Visit>
    void for_each_entry(TsmvTilePlan& tile, Visit visit) const {
        for (index_t r = 0; r < tile.rows; ++r) {
            const index_t* column = pattern_.col_indices + pattern_.row_offsets[tile.row_begin + r];
            for (auto i = tile.entry_offsets[r]; i < tile.entry_offsets[r + 1]; ++i, ++column) {
                if (tile.entries[i].step != Placement::kDropped) visit(tile.entries[i], *column);
            }
        }
    }

    void count_entries(TsmvTilePlan& tile) const {
        for (const StepUse& use : tile.steps) tile.kept += use.entries;
        if (tile.kept == tile.entries.size()) return;
        for (index_t r = 0; r < tile.rows; ++r) {
            const index_t row = tile.row_begin + r;
            index_t k = pattern_.row_offsets[row];
            for (auto i = tile.entry_offsets[r]; i < tile.entry_offsets[r + 1]; ++i, ++k) {
                if (tile.entries[i].step == Placement::kDropped)
                    tile.remainder += pattern_.col_indices[k] == row ? 1 : 2;
            }
        }
    }

    void schedule(TsmvTilePlan& tile) {
        sort_rows(tile);
        tile.steps.clear();
        tile.slice_steps.clear();
        tile.slice_rows.clear();
        const std::span<RowTask> tasks(tasks_);
        if (limits_.variant == TsmvVariant::kPoster) {
            schedule_list(tasks, limits_.threads, tile.local_columns(), tile.steps);
            tile.slice_steps.push_back(static_cast<index_t>(tile.steps.size()));
            tile.slice_rows.push_back(limits_.threads);
        } else {
            for (std::size_t first = 0; first < tasks.size(); first += limits_.threads) {
                const std::size_t count = std::min<std::size_t>(limits_.threads, tasks.size() - first);
                const std::size_t steps = tile.steps.size();
                scheduler_.schedule(tasks.subspan(first, count), tile.local_columns(), tile.steps);
                tile.slice_steps.push_back(static_cast<index_t>(tile.steps.size() - steps));
                tile.slice_rows.push_back(static_cast<index_t>(count));
            }
        }
        tile.positions.assign(tile.rows, RowTask::kNone);
        for (const RowTask& task : tasks_) tile.positions[task.row] = task.position;
    }

    // The rows that have entries, longest first, rows of equal length in order: a counting sort.
    void sort_rows(TsmvTilePlan& tile) {
        std::vector<index_t> places(kMaxRowEntries + 2, 0);
        lengths_.assign(tile.rows, 0);
        for (index_t r = 0; r < tile.rows; ++r) {
            for (auto i = tile.entry_offsets[r]; i < tile.entry_offsets[r + 1]; ++i) {
                lengths_[r] += tile.entries[i].step != Placement::kDropped;
            }
            ++places[lengths_[r]];
        }
        // places[length]: how many rows are longer, which is where those of this length begin.
        index_t longer = 0;
        for (index_t length = kMaxRowEntries; length >= 0; --length) {
            longer += std::exchange(places[length], longer);
        }
        tasks_.resize(places[0]);
        for (index_t r = 0; r < tile.rows; ++r) {
            if (lengths_[r] == 0) continue;
            const auto position = static_cast<std::uint16_t>(places[lengths_[r]]++);
            const std::span entries(tile.entries.begin() + tile.entry_offsets[r],
                                    tile.entries.begin() + tile.entry_offsets[r + 1]);
            tasks_[position] = {entries, static_cast<std::uint16_t>(r), static_cast<std::uint16_t>(lengths_[r]),
                                position};
        }
    }

    // Drops the entries in the last steps of each slice where that saves much memory: a hub's steps, which hold hardly
    // anything but its own entries. Whether it did.
    bool drop_costly_steps(TsmvTilePlan& tile) const {
        constexpr std::size_t kWorthDropping = 8;  // an eighth of the tile
        const std::size_t slot = limits_.slot_bytes();
        const std::size_t twice_in_csr = 2 * (limits_.value_bytes + sizeof(index_t));
        std::vector<index_t> kept_steps;
        std::size_t before = 0, after = 0, first = 0;
        for (std::size_t s = 0; s < tile.slice_steps.size(); ++s) {
            const std::span<const StepUse> steps(tile.steps.data() + first, tile.slice_steps[s]);
            first += steps.size();
            std::size_t bytes = 0;
            for (const StepUse& use : steps) bytes += tile.slots(s, use) * slot;
            before += bytes;
            // From the last step on: what is left when this step and all after it are dropped.
            std::size_t best = bytes;
            index_t kept = static_cast<index_t>(steps.size());
            for (index_t k = kept - 1; k >= 0; --k) {
                bytes = bytes - tile.slots(s, steps[k]) * slot + steps[k].entries * twice_in_csr;
                if (bytes < best) best = bytes, kept = k;
            }
            after += best;
            kept_steps.push_back(kept);
        }
        if ((before - after) * kWorthDropping <= before) return false;
        for (index_t r = 0; r < tile.rows; ++r) {
            if (tile.positions[r] == RowTask::kNone) continue;
            const index_t kept = kept_steps[tile.positions[r] / limits_.threads];
            for (auto i = tile.entry_offsets[r]; i < tile.entry_offsets[r + 1]; ++i) {
                if (tile.entries[i].step >= kept) tile.entries[i].step = Placement::kDropped;
            }
        }
        return true;
    }

    const TsmvPattern& pattern_;
    const TsmvLimits& limits_;
    Halo halo_;
    SliceScheduler scheduler_;
    std::vector<RowTask> tasks_;
    std::vector<index_t> lengths_;
};

}  // namespace

index_t TsmvTilePlan::slots(std::size_t slice, const StepUse& use) const {
    return std::min((use.threads + kWarp - 1) / kWarp * kWarp, slice_rows[slice]);
}

std::size_t TsmvTilePlan::count_slots() const {
    std::size_t count = 0, step = 0;
    for (std::size_t s = 0; s < slice_steps.size(); ++s) {
        for (index_t k = 0; k < slice_steps[s]; ++k) count += slots(s, steps[step++]);
    }
    return count;
}

std::vector<TsmvTilePlan> plan_tiles(const TsmvPattern& pattern, const TsmvLimits& limits) {
    const index_t groups = pattern.rows / limits.tile_rows + (pattern.rows % limits.tile_rows != 0);
    std::vector<std::vector<TsmvTilePlan>> planned(groups);
    const std::int64_t work = 10 * std::int64_t(pattern.rows ? pattern.row_offsets[pattern.rows] : 0);
#pragma omp parallel num_threads(threads_for(work))
    {
        Planner planner(pattern, limits);
#pragma omp for schedule(dynamic)
        for (index_t g = 0; g < groups; ++g) {
            const index_t begin = g * limits.tile_rows;
            planner.plan(begin, begin + std::min(limits.tile_rows, pattern.rows - begin), planned[g]);
        }
    }
    std::vector<TsmvTilePlan> tiles;
    for (auto& group : planned) std::move(group.begin(), group.end(), std::back_inserter(tiles));
    return tiles;
}

}  // namespace spmvgpu
