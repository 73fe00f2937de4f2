// Numbering and scheduling of the tiles of `tsmv`, as passes on any device; see formats/builder.hpp. The cut into
// tiles, and the choice of the remainder, are in tiles_build.hpp.
#pragma once

#include <algorithm>
#include <vector>

#include "core/passes/passes.hpp"
#include "formats/tsmv/plan.hpp"
#include "formats/tsmv/schedule.hpp"

namespace spmvgpu {

// The tiles during the layout, as passes over tiles read them.
struct TsmvTiles {
    TsmvLimits limits;
    const index_t *offsets, *columns;  // of the pattern
    const index_t* begins;             // of each tile: its first node, and the end
    Placement* blocks;
    index_t* halo;             // of each tile: columns in its halo
    index_t* lengths;          // of each node: blocks that are not dropped
    index_t* order;            // of each tile: its nodes, longest first, equal lengths in order
    index_t* tasks;            // of each tile: nodes with blocks
    index_t* highest;          // of each tile: most blocks below the diagonal in any of its columns
    const index_t* degrees;    // of each node as a column: blocks below the diagonal
    std::uint16_t* positions;  // see TsmvLayout
    index_t* slices;           // of each tile: its first slice, and the end
    const index_t* tile_of;    // tile of each slice

    constexpr index_t nodes_of(std::int64_t t) const { return begins[t + 1] - begins[t]; }
    constexpr index_t local_nodes(std::int64_t t) const { return halo[t] + nodes_of(t); }
    constexpr index_t first_block(std::int64_t t) const { return offsets[begins[t]]; }
    constexpr index_t blocks_of(std::int64_t t) const { return offsets[begins[t + 1]] - offsets[begins[t]]; }
    constexpr bool is_kept(index_t k) const { return blocks[k].step != Placement::kDropped; }
    constexpr bool is_in_halo(index_t k, std::int64_t t) const { return is_kept(k) && columns[k] < begins[t]; }

    constexpr index_t first_task(index_t s) const {
        return limits.is_poster() ? 0 : (s - slices[tile_of[s]]) * limits.threads;
    }
    constexpr index_t count_tasks(index_t s) const {
        const index_t left = tasks[tile_of[s]] - first_task(s);
        return limits.is_poster() || left < limits.threads ? left : limits.threads;
    }
    constexpr SliceTasks tasks_of(index_t s) const {
        const index_t t = tile_of[s], begin = begins[t];
        return {count_tasks(s), order + begin + first_task(s), lengths + begin, offsets + begin, blocks, halo[t],
                local_nodes(t)};
    }
    // Threads for which a slice has slots.
    constexpr index_t threads_of(index_t s) const { return limits.is_poster() ? limits.threads : count_tasks(s); }
};

// Numbers the columns of all blocks that are kept, and schedules them.
template <class Passes>
class TsmvTileWork {
public:
    using Lanes = typename Passes::Lanes;
    static constexpr std::int64_t kNanosecondsPerBlock = 20;

    TsmvTileWork(Passes& passes, const NodePattern& pattern, const TsmvLimits& limits)
        : passes_(passes), pattern_(pattern), limits_(limits) {
        blocks_ = passes_.template scratch<Placement>(pattern.blocks);
        positions_ = passes_.template scratch<std::uint16_t>(pattern.nodes);
        lengths_ = passes_.template scratch<index_t>(pattern.nodes);
        order_ = passes_.template scratch<index_t>(pattern.nodes);
        count_degrees();
        work_per_tile_ = kNanosecondsPerBlock * (pattern.blocks / (pattern.nodes / limits.tile_nodes + 1) + 1);
    }

    index_t count() const { return count_; }
    index_t slice_count() const { return slice_count_; }
    std::int64_t work_per_tile() const { return work_per_tile_; }
    const Array<Placement>& blocks() const { return blocks_; }
    const Array<std::uint16_t>& positions() const { return positions_; }
    // The result of the schedule: the steps of each slice, their uses, and where these begin.
    Array<index_t>& slice_steps() { return slice_steps_; }
    const StepUse* uses() const { return uses_.data(); }
    const std::int64_t* uses_before() const { return uses_before_.data(); }

    // Restarts with this many tiles; the caller sets their begins.
    index_t* begin_tiles(index_t count) {
        count_ = count;
        begins_ = passes_.template scratch<index_t>(count + std::size_t(1));
        halo_ = passes_.template scratch<index_t>(count + std::size_t(1));
        tasks_ = passes_.template scratch<index_t>(count);
        highest_ = passes_.template scratch<index_t>(count);
        slices_ = passes_.template scratch<index_t>(count + std::size_t(1));
        return begins_.data();
    }
    Array<index_t> begins() const { return begins_; }

    TsmvTiles tiles() {
        return {limits_,         pattern_.offsets.data(), pattern_.columns.data(), begins_.data(), blocks_.data(),
                halo_.data(),    lengths_.data(),         order_.data(),           tasks_.data(),  highest_.data(),
                degrees_.data(), positions_.data(),       slices_.data(),          tile_of_.data()};
    }

    // Drops all except the last blocks of a very long node and, in the poster's variant with its square blocks, all
    // blocks left of the square. It does so for the marked tiles, or for all.
    void begin_blocks(const Mark* marks) {
        const TsmvTiles all = tiles();
        passes_.each_in_step(
            count_,
            [=] SPMVGPU_BODY(const Lanes& lanes, std::int64_t t) {
                if (marks != nullptr && marks[t] == 0) return;
                const index_t begin = all.begins[t], longest = all.limits.max_blocks();
                lanes.share(all.nodes_of(t), [&](index_t n) {
                    const index_t end = all.offsets[begin + n + 1];
                    for (index_t k = all.offsets[begin + n]; k < end; ++k) {
                        const bool drops = end - k > longest || (all.limits.is_poster() && all.columns[k] < begin);
                        all.blocks[k] = {0, drops ? Placement::kDropped : std::uint16_t(0)};
                    }
                });
            },
            work_per_tile_);
    }

    // Finds the halo of every tile and numbers the columns of all blocks, for tiles that do not have too many: with the
    // set of the columns from the first one in the halo on.
    void number_columns() {
        const TsmvTiles all = tiles();
        Array<std::int64_t> words_before = passes_.template scratch<std::int64_t>(count_ + std::size_t(1));
        Array<index_t> first_words = passes_.template scratch<index_t>(count_);
        std::int64_t* const words = words_before.data();
        index_t* const first_word = first_words.data();
        constexpr auto kBits = static_cast<index_t>(kWordBits);
        passes_.each_in_step(
            count_,
            [=] SPMVGPU_BODY(const Lanes& lanes, std::int64_t t) {
                const index_t begin = all.begins[t], first = all.first_block(t);
                const index_t least = lanes.least_of(
                    all.blocks_of(t),
                    [&](index_t i) { return all.is_kept(first + i) ? all.columns[first + i] : begin; }, begin);
                lanes.once([&] {
                    first_word[t] = least / kBits;
                    words[t] = least < begin ? (begin - 1) / kBits - least / kBits + 1 : 0;
                });
            },
            work_per_tile_);
        constexpr std::int64_t kMostWords = 1 << 24;
        const std::int64_t all_words = passes_.scan(words, count_);
        in_batches(words_before, all_words, kMostWords, [&](index_t from, index_t to, std::int64_t size) {
            number_columns_of(from, to, size, words, first_word);
        });
    }

    void number_columns_of(index_t from, index_t to, std::int64_t size, const std::int64_t* words,
                           const index_t* first_word) {
        const TsmvTiles all = tiles();
        Array<Word> sets = passes_.template scratch<Word>(size);
        Array<index_t> counts = passes_.template scratch<index_t>(size);
        Word* const every_set = sets.data();
        index_t* const every_count = counts.data();
        passes_.each_in_step(
            to - from,
            [=] SPMVGPU_BODY(const Lanes& lanes, std::int64_t i) {
                const std::int64_t t = from + i;
                const index_t begin = all.begins[t], first = all.first_block(t), blocks = all.blocks_of(t);
                const auto kBits = static_cast<index_t>(kWordBits), shift = kBits * first_word[t];
                const auto length = static_cast<index_t>(words[t + 1] - words[t]);
                Word* const set = every_set + (words[t] - words[from]);
                index_t* const before = every_count + (words[t] - words[from]);
                lanes.share(length, [&](index_t w) { set[w] = 0; });
                lanes.share(blocks, [&](index_t k) {
                    if (all.is_in_halo(first + k, t)) add_to_set(set, all.columns[first + k] - shift);
                });
                const index_t halo = lanes.add_up(
                    length, [&](index_t w) { return count_bits(set[w]); },
                    [&](index_t w, index_t sum) { before[w] = sum; });
                lanes.once([&] { all.halo[t] = halo; });
                if (!all.limits.fits(std::int64_t(halo) + all.nodes_of(t), 0)) return;
                lanes.share(blocks, [&](index_t k) {
                    if (!all.is_kept(first + k)) return;
                    const index_t column = all.columns[first + k], bit = column - shift;
                    all.blocks[first + k].column = static_cast<std::uint16_t>(
                        column >= begin
                            ? halo + column - begin
                            : before[bit / kBits] + count_bits(set[bit / kBits] & ((Word(1) << bit % kBits) - 1)));
                });
            },
            work_per_tile_);
    }

    void schedule() {
        sort_nodes();
        list_slices();
        const TsmvTiles all = tiles();
        // The memory of a slice, and the bound of its steps.
        Array<std::int64_t> words_of = passes_.template scratch<std::int64_t>(slice_count_);
        uses_before_ = passes_.template scratch<std::int64_t>(slice_count_ + std::size_t(1));
        std::int64_t *const words = words_of.data(), *const uses = uses_before_.data();
        passes_.each(slice_count_, [=] SPMVGPU_BODY(std::int64_t slice) {
            const auto s = static_cast<index_t>(slice);
            const SliceTasks tasks = all.tasks_of(s);
            if (all.limits.is_poster()) {
                words[s] = ListScheduler::words_of_tile(all.limits, tasks.columns);
                uses[s] = ListScheduler::most_steps(all.blocks_of(all.tile_of[s]));
            } else {
                const index_t degree = all.highest[all.tile_of[s]];
                const index_t steps = SliceScheduler::most_steps(tasks.lengths[tasks.nodes[0]],
                                                                 degree < tasks.count ? degree : tasks.count);
                words[s] = SliceScheduler::words_of_slice(all.limits, steps, tasks.count, tasks.columns);
                uses[s] = steps;
            }
        });
        uses_ = passes_.template scratch<StepUse>(passes_.scan(uses, slice_count_));
        passes_.fill(uses_.data(), static_cast<std::int64_t>(uses_.size()), StepUse{});
        slice_steps_ = passes_.template make<index_t>(slice_count_ + std::size_t(1));
        // Slices of hubs, for which near memory is too small, are scheduled separately.
        const auto most =
            largest<std::int64_t>(passes_, slice_count_, [=] SPMVGPU_BODY(std::int64_t s) { return words[s]; });
        if (most <= kFastWords) return schedule_slices(slice_count_, nullptr, words, most);
        schedule_slices(slice_count_, nullptr, words, kFastWords);
        const Array<index_t> large =
            select(passes_, slice_count_, [=] SPMVGPU_BODY(std::int64_t s) { return words[s] > kFastWords; });
        schedule_slices(static_cast<index_t>(large.size()), large.data(), words, most);
    }

    // Schedules the slices that need at most `most` words: of the first `count`, or of a list.
    void schedule_slices(index_t count, const index_t* list, const std::int64_t* words, std::int64_t most) {
        const TsmvTiles all = tiles();
        const std::int64_t* const uses_before = uses_before_.data();
        StepUse* const uses = uses_.data();
        index_t* const steps = slice_steps_.data();
        passes_.each_in_step_with(
            count, most,
            [=] SPMVGPU_BODY(const Lanes& lanes, std::int64_t i, Word* memory) {
                const index_t s = list == nullptr ? static_cast<index_t>(i) : list[i];
                if (words[s] > most) return;
                const SliceTasks tasks = all.tasks_of(s);
                StepUse* const own_uses = uses + uses_before[s];
                const index_t steps_used = all.limits.is_poster()
                                               ? ListScheduler::schedule(lanes, all.limits, tasks, memory, own_uses,
                                                                         all.positions + all.begins[all.tile_of[s]])
                                               : SliceScheduler::schedule(lanes, all.limits, tasks, memory, own_uses);
                lanes.once([&] { steps[s] = steps_used; });
            },
            work_per_tile_);
    }

    void sort_nodes() {
        const TsmvTiles all = tiles();
        passes_.each_in_step(
            count_,
            [=] SPMVGPU_BODY(const Lanes& lanes, std::int64_t t) {
                const index_t begin = all.begins[t], nodes = all.nodes_of(t);
                index_t *const lengths = all.lengths + begin, *const order = all.order + begin;
                lanes.share(nodes, [&](index_t n) {
                    index_t length = 0;
                    for (index_t k = all.offsets[begin + n]; k < all.offsets[begin + n + 1]; ++k) {
                        length += all.is_kept(k);
                    }
                    lengths[n] = length;
                    all.positions[begin + n] = TsmvLayout::kNone;
                });
                index_t placed = 0;
                const auto longest_below = [&](index_t bound) {
                    return lanes.largest_of(
                        nodes, [&](index_t n) { return lengths[n] < bound ? lengths[n] : 0; }, 0);
                };
                for (index_t length = longest_below(all.limits.max_blocks() + 1); length > 0;
                     length = longest_below(length)) {
                    placed += lanes.add_up(
                        nodes, [&](index_t n) { return index_t(lengths[n] == length); },
                        [&](index_t n, index_t before) {
                            if (lengths[n] != length) return;
                            order[placed + before] = n;
                            all.positions[begin + n] = static_cast<std::uint16_t>(placed + before);
                        });
                }
                const index_t first = all.first_block(t);
                const index_t highest = lanes.largest_of(
                    all.blocks_of(t),
                    [&](index_t i) { return all.is_kept(first + i) ? all.degrees[all.columns[first + i]] : 0; }, 0);
                lanes.once([&] {
                    const index_t threads = all.limits.threads;
                    all.highest[t] = highest;
                    all.tasks[t] = placed;
                    all.slices[t] = all.limits.is_poster() ? 1 : (placed + threads - 1) / threads;
                });
            },
            work_per_tile_);
    }

    void list_slices() {
        slice_count_ = passes_.scan(slices_.data(), count_);
        tile_of_ = passes_.template scratch<index_t>(slice_count_);
        index_t* const tile_of = tile_of_.data();
        const index_t* const slices = slices_.data();
        passes_.each(count_, [=] SPMVGPU_BODY(std::int64_t t) {
            for (index_t s = slices[t]; s < slices[t + 1]; ++s) tile_of[s] = static_cast<index_t>(t);
        });
    }

    // Public, because nvcc takes no lambdas for the GPU from private functions.
    void count_degrees() {
        degrees_ = passes_.template scratch<index_t>(pattern_.nodes);
        index_t* const degrees = degrees_.data();
        passes_.fill(degrees, pattern_.nodes, index_t(0));
        const index_t *const offsets = pattern_.offsets.data(), *const columns = pattern_.columns.data();
        passes_.each(
            pattern_.nodes,
            [=] SPMVGPU_BODY(std::int64_t node) {
                for (index_t k = offsets[node]; k < offsets[node + 1]; ++k) {
                    if (columns[k] < node) count_one(degrees + columns[k]);
                }
            },
            kNanosecondsPerBlock);
    }

    static constexpr std::int64_t steps_of(const TsmvTiles& all, const index_t* steps, std::int64_t t) {
        std::int64_t sum = 0;
        for (index_t s = all.slices[t]; s < all.slices[t + 1]; ++s) sum += steps[s];
        return sum;
    }

    // Calls body(from, to, size) for runs of places, each of which begins where `before` says, so that as many of them
    // as possible take `most` together, or a single one that takes more.
    template <class Body>
    void in_batches(const Array<std::int64_t>& before, std::int64_t all, std::int64_t most, const Body& body) const {
        const auto count = static_cast<index_t>(before.size() - 1);
        if (all <= most) return body(0, count, all);
        const std::vector<std::int64_t> at = passes_.read_all(before);
        for (index_t from = 0; from < count;) {
            const auto end = std::upper_bound(at.begin() + from + 1, at.end(), at[from] + most) - at.begin();
            const auto to = std::max<index_t>(from + 1, static_cast<index_t>(end) - 1);
            body(from, to, at[to] - at[from]);
            from = to;
        }
    }

private:
    Passes& passes_;
    const NodePattern& pattern_;
    TsmvLimits limits_;
    std::int64_t work_per_tile_;
    index_t count_ = 0, slice_count_ = 0;
    Array<Placement> blocks_;
    Array<std::uint16_t> positions_;
    Array<index_t> begins_, halo_, lengths_, order_, tasks_, highest_, degrees_, slices_, tile_of_;  // see TsmvTiles
    Array<std::int64_t> uses_before_;  // begins of the uses of each slice, and the end
    Array<StepUse> uses_;
    Array<index_t> slice_steps_;  // steps of each slice
};

}  // namespace spmvgpu
