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
constexpr index_t kMaxEntries = 4096;  // of a group; a longer one is a hub. With this a tile of one group always fits
constexpr int kBankBytes = 128;        // that shared memory serves at once

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
    Planner(const Pattern& pattern, const RowGroups& groups, const TsmvLimits& limits)
        : pattern_(pattern),
          groups_(groups),
          limits_(limits),
          halo_(pattern.rows),
          scheduler_(kBankBytes / limits.value_bytes) {}

    void plan(index_t begin, index_t end, std::vector<TsmvTilePlan>& tiles) {
        TsmvTilePlan tile = read_groups(begin, end);
        bool fits = number_columns(tile);
        if (fits) {
            schedule(tile);
            fits = tile.shared_bytes(limits_.value_bytes) <= kMaxSharedBytes;
        }
        if (!fits && tile.groups > 1) {
            // In whole warps, if there are several.
            const index_t half = tile.groups > kWarp ? (tile.groups / 2 + kWarp - 1) / kWarp * kWarp : tile.groups / 2;
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
    // The columns of the last row of a group up to its diagonal are those of the whole group: the ones left of it,
    // which count for the mirror images too, and its own.
    const index_t* columns_of(index_t group) const {
        return pattern_.col_indices + pattern_.row_offsets[groups_.begins[group + 1] - 1];
    }

    // Dropped from the outset: all but the last entries of a very long group, and, as the poster has square blocks,
    // what lies left of the block.
    TsmvTilePlan read_groups(index_t begin, index_t end) const {
        TsmvTilePlan tile;
        tile.group_begin = begin;
        tile.groups = end - begin;
        tile.row_begin = groups_.begins[begin];
        tile.rows = groups_.begins[end] - tile.row_begin;
        tile.entry_offsets.assign(tile.groups + 1, 0);
        for (index_t g = 0; g < tile.groups; ++g) {
            const index_t row = groups_.begins[begin + g + 1] - 1;
            const index_t* const columns = columns_of(begin + g);
            const index_t length = pattern_.row_offsets[row + 1] - pattern_.row_offsets[row];
            index_t count = 0;
            while (count < length && columns[count] <= row) ++count;
            tile.entry_offsets[g + 1] = tile.entry_offsets[g] + count;
        }
        tile.entries.resize(tile.entry_offsets.back());
        for (index_t g = 0; g < tile.groups; ++g) {
            const std::span<Placement> entries = entries_of(tile, g);
            std::size_t dropped = entries.size() - std::min<std::size_t>(entries.size(), kMaxEntries);
            if (limits_.variant == TsmvVariant::kPoster) {
                const index_t* const columns = columns_of(begin + g);
                const auto* const inside = std::lower_bound(columns, columns + entries.size(), tile.row_begin);
                dropped = std::max<std::size_t>(dropped, inside - columns);
            }
            for (Placement& entry : entries.first(dropped)) entry.step = Placement::kDropped;
        }
        return tile;
    }

    static std::span<Placement> entries_of(TsmvTilePlan& tile, index_t g) {
        return std::span(tile.entries)
            .subspan(tile.entry_offsets[g], tile.entry_offsets[g + 1] - tile.entry_offsets[g]);
    }

    template <class Visit>
    void for_each_kept(TsmvTilePlan& tile, Visit visit) const {
        for (index_t g = 0; g < tile.groups; ++g) {
            const index_t* column = columns_of(tile.group_begin + g);
            for (Placement& entry : entries_of(tile, g)) {
                if (entry.step != Placement::kDropped) visit(entry, *column);
                ++column;
            }
        }
    }

    // Finds the halo and numbers the columns of all entries. False if they are too many.
    bool number_columns(TsmvTilePlan& tile) {
        halo_.begin();
        for_each_kept(tile, [&](Placement&, index_t column) {
            if (column < tile.row_begin) halo_.add(column);
        });
        tile.halo_columns = halo_.number();
        const bool fits = 2 * std::size_t(tile.local_columns()) * limits_.value_bytes <= kMaxSharedBytes;
        if (fits) {
            const index_t own = static_cast<index_t>(tile.halo_columns.size()) - tile.row_begin;
            for_each_kept(tile, [&](Placement& entry, index_t column) {
                entry.column =
                    static_cast<std::uint16_t>(column < tile.row_begin ? halo_.number_of(column) : own + column);
            });
        }
        halo_.clear();
        return fits;
    }

    void schedule(TsmvTilePlan& tile) {
        sort_groups(tile);
        tile.steps.clear();
        tile.slice_steps.clear();
        tile.slice_groups.clear();
        const std::span<GroupTask> tasks(tasks_);
        if (limits_.variant == TsmvVariant::kPoster) {
            schedule_list(tasks, limits_.threads, tile.local_columns(), tile.steps);
            tile.slice_steps.push_back(static_cast<index_t>(tile.steps.size()));
            tile.slice_groups.push_back(limits_.threads);
        } else {
            for (std::size_t first = 0; first < tasks.size(); first += limits_.threads) {
                const std::size_t count = std::min<std::size_t>(limits_.threads, tasks.size() - first);
                const std::size_t steps = tile.steps.size();
                scheduler_.schedule(tasks.subspan(first, count), tile.local_columns(), tile.steps);
                tile.slice_steps.push_back(static_cast<index_t>(tile.steps.size() - steps));
                tile.slice_groups.push_back(static_cast<index_t>(count));
            }
        }
        tile.positions.assign(tile.groups, GroupTask::kNone);
        for (const GroupTask& task : tasks_) tile.positions[task.group] = task.position;
    }

    // The groups that have entries, longest first, those of equal length in order: a counting sort.
    void sort_groups(TsmvTilePlan& tile) {
        std::vector<index_t> places(kMaxEntries + 1, 0);
        lengths_.assign(tile.groups, 0);
        for (index_t g = 0; g < tile.groups; ++g) {
            for (const Placement& entry : entries_of(tile, g)) lengths_[g] += entry.step != Placement::kDropped;
            ++places[lengths_[g]];
        }
        // Then, how many groups are longer, which is where those of a length begin.
        index_t longer = 0;
        for (index_t length = kMaxEntries; length >= 0; --length) longer += std::exchange(places[length], longer);
        tasks_.resize(places[0]);
        const index_t own = static_cast<index_t>(tile.halo_columns.size()) - tile.row_begin;
        for (index_t g = 0; g < tile.groups; ++g) {
            if (lengths_[g] == 0) continue;
            const index_t place = places[lengths_[g]]++;
            tasks_[place] = {entries_of(tile, g),
                             static_cast<std::uint16_t>(own + groups_.begins[tile.group_begin + g]),
                             static_cast<std::uint16_t>(lengths_[g]), static_cast<std::uint16_t>(place), g};
        }
    }

    // Drops the entries in the last steps of each slice where that saves much memory: a hub's steps, which hold hardly
    // anything but its own entries. Whether it did.
    bool drop_costly_steps(TsmvTilePlan& tile) const {
        constexpr std::size_t kWorthDropping = 3;  // a third of the tile
        const std::size_t slot = limits_.slot_bytes();
        const std::size_t twice_in_csr = 2 * limits_.row_group * (limits_.value_bytes + sizeof(index_t));
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
        for (index_t g = 0; g < tile.groups; ++g) {
            if (tile.positions[g] == GroupTask::kNone) continue;
            const index_t kept = kept_steps[tile.positions[g] / limits_.threads];
            for (Placement& entry : entries_of(tile, g)) {
                if (entry.step >= kept) entry.step = Placement::kDropped;
            }
        }
        return true;
    }

    void count_entries(TsmvTilePlan& tile) const {
        for (index_t g = 0; g < tile.groups; ++g) {
            const index_t begin = groups_.begins[tile.group_begin + g];
            const index_t rows = groups_.begins[tile.group_begin + g + 1] - begin;
            const index_t* column = columns_of(tile.group_begin + g);
            for (const Placement& entry : entries_of(tile, g)) {
                if (entry.step != Placement::kDropped) {
                    tile.kept += rows;
                } else {
                    tile.remainder += *column < begin ? 2 * rows : rows;
                }
                ++column;
            }
        }
    }

    const Pattern& pattern_;
    const RowGroups& groups_;
    const TsmvLimits& limits_;
    Halo halo_;
    SliceScheduler scheduler_;
    std::vector<GroupTask> tasks_;
    std::vector<index_t> lengths_;
};

}  // namespace

index_t TsmvTilePlan::slots(std::size_t slice, const StepUse& use) const {
    return std::min((use.threads + kWarp - 1) / kWarp * kWarp, slice_groups[slice]);
}

std::size_t TsmvTilePlan::count_slots() const {
    std::size_t count = 0, step = 0;
    for (std::size_t s = 0; s < slice_steps.size(); ++s) {
        for (index_t k = 0; k < slice_steps[s]; ++k) count += slots(s, steps[step++]);
    }
    return count;
}

std::vector<TsmvTilePlan> plan_tiles(const Pattern& pattern, const RowGroups& groups, const TsmvLimits& limits) {
    const index_t chunks = groups.count() / limits.tile_groups + (groups.count() % limits.tile_groups != 0);
    std::vector<std::vector<TsmvTilePlan>> planned(chunks);
    const std::int64_t work = 10 * std::int64_t(pattern.row_offsets[pattern.rows]);
#pragma omp parallel num_threads(threads_for(work))
    {
        Planner planner(pattern, groups, limits);
#pragma omp for schedule(dynamic)
        for (index_t c = 0; c < chunks; ++c) {
            const index_t begin = c * limits.tile_groups;
            planner.plan(begin, begin + std::min(limits.tile_groups, groups.count() - begin), planned[c]);
        }
    }
    std::vector<TsmvTilePlan> tiles;
    for (auto& chunk : planned) std::move(chunk.begin(), chunk.end(), std::back_inserter(tiles));
    return tiles;
}

}  // namespace spmvgpu
