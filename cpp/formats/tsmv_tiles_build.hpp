// How a pattern is cut into the tiles of `tsmv`, and these are scheduled, as passes on any device; see builder.hpp.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "formats/tsmv_plan.hpp"
#include "formats/tsmv_schedule.hpp"
#include "passes/passes.hpp"

namespace spmvgpu {

// The tiles on their way to a layout, for those who look at one of them.
struct TsmvTiles {
    TsmvLimits limits;
    const index_t *offsets, *columns;  // of the pattern
    const index_t* begins;             // of each tile its first node, and the end
    Placement* blocks;
    index_t* halo;             // of each tile, how many columns it has there
    index_t* lengths;          // of each node, blocks that are not dropped
    index_t* order;            // of each tile its nodes, longest first, those of equal length in order
    index_t* tasks;            // of each tile, nodes with blocks
    index_t* highest;          // of each tile, blocks below the diagonal in any of its columns, at most
    const index_t* degrees;    // of each node as a column, blocks below the diagonal
    std::uint16_t* positions;  // see TsmvLayout
    index_t* slices;           // of each tile its first slice, and the end
    const index_t* tile_of;    // of each slice

    constexpr index_t nodes_of(std::int64_t t) const { return begins[t + 1] - begins[t]; }
    constexpr index_t local_nodes(std::int64_t t) const { return halo[t] + nodes_of(t); }
    constexpr index_t first_block(std::int64_t t) const { return offsets[begins[t]]; }
    constexpr index_t blocks_of(std::int64_t t) const { return offsets[begins[t + 1]] - offsets[begins[t]]; }
    constexpr bool is_kept(index_t k) const { return blocks[k].step != Placement::kDropped; }
    constexpr bool is_in_halo(index_t k, std::int64_t t) const { return is_kept(k) && columns[k] < begins[t]; }

    // The nodes of slice s.
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
    // Threads that a slice has slots for.
    constexpr index_t threads_of(index_t s) const { return limits.is_poster() ? limits.threads : count_tasks(s); }
};

// Blocks that would cost much more in the tiles than in a general format are dropped from them: those of hubs, whose
// row or column takes a step for each.
template <class Passes>
class TsmvTiler {
public:
    using Lanes = typename Passes::Lanes;

    TsmvTiler(Passes& passes, const NodePattern& pattern, const TsmvLimits& limits)
        : passes_(passes), pattern_(pattern), limits_(limits) {
        blocks_ = passes_.template scratch<Placement>(pattern.blocks);
        positions_ = passes_.template scratch<std::uint16_t>(pattern.nodes);
        lengths_ = passes_.template scratch<index_t>(pattern.nodes);
        order_ = passes_.template scratch<index_t>(pattern.nodes);
        count_degrees();
        work_per_tile_ = kNanosecondsPerBlock * (pattern.blocks / (pattern.nodes / limits.tile_nodes + 1) + 1);
    }

    TsmvLayout lay_out() {
        cut_evenly();
        for (;;) {
            begin_blocks(nullptr);
            number_columns();
            if (cut_what_does_not_fit(false)) continue;
            schedule();
            if (!cut_what_does_not_fit(true)) break;
        }
        if (drop_costly_steps()) {
            number_columns();
            schedule();
        }
        Kept kept = count_entries();
        // A remainder is one more kernel over all rows: not for a few entries.
        constexpr std::int64_t kWorthAKernel = 100;  // one in so many
        if (kept.remainder > 0 && kept.remainder * kWorthAKernel < kept.entries) {
            take_back();
            kept = count_entries();
        }
        return finish(kept);
    }

    // Public, as all of this is: nvcc takes no lambdas for the GPU from private functions.
    void count_degrees() {
        degrees_ = passes_.template scratch<index_t>(pattern_.nodes);
        index_t* const degrees = degrees_.data();
        passes_.fill(degrees, pattern_.nodes, index_t(0));
        const index_t *const offsets = pattern_.offsets.data(), *const columns = pattern_.columns.data();
        passes_.each(
            pattern_.nodes,
            SPMVGPU_BODY(std::int64_t node) {
                for (index_t k = offsets[node]; k < offsets[node + 1]; ++k) {
                    if (columns[k] < node) count_one(degrees + columns[k]);
                }
            },
            kNanosecondsPerBlock);
    }

    void cut_evenly() {
        const index_t nodes = pattern_.nodes, most = limits_.tile_nodes;
        set_tile_count(nodes / most + (nodes % most != 0));
        index_t* const begins = begins_.data();
        passes_.each(
            std::int64_t(count_) + 1, SPMVGPU_BODY(std::int64_t t) {
                const std::int64_t begin = t * most;
                begins[t] = static_cast<index_t>(begin < nodes ? begin : nodes);
            });
    }

    void set_tile_count(index_t count) {
        count_ = count;
        begins_ = passes_.template scratch<index_t>(count + std::size_t(1));
        halo_ = passes_.template scratch<index_t>(count + std::size_t(1));
        tasks_ = passes_.template scratch<index_t>(count);
        highest_ = passes_.template scratch<index_t>(count);
        slices_ = passes_.template scratch<index_t>(count + std::size_t(1));
    }

    TsmvTiles tiles() {
        return {limits_,         pattern_.offsets.data(), pattern_.columns.data(), begins_.data(), blocks_.data(),
                halo_.data(),    lengths_.data(),         order_.data(),           tasks_.data(),  highest_.data(),
                degrees_.data(), positions_.data(),       slices_.data(),          tile_of_.data()};
    }

    // Dropped from the outset: all but the last blocks of a very long node, and, as the poster has square blocks on the
    // diagonal, what lies left of that. Of the marked tiles, or of all.
    void begin_blocks(const Mark* marks) {
        const TsmvTiles all = tiles();
        passes_.each_in_step(
            count_,
            SPMVGPU_BODY(const Lanes& lanes, std::int64_t t) {
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

    // Finds the halo of every tile and numbers the columns of all blocks, of tiles that have not too many: with the set
    // of the columns from the first one in the halo on.
    void number_columns() {
        const TsmvTiles all = tiles();
        Array<std::int64_t> words_before = passes_.template scratch<std::int64_t>(count_ + std::size_t(1));
        Array<index_t> first_words = passes_.template scratch<index_t>(count_);
        std::int64_t* const words = words_before.data();
        index_t* const first_word = first_words.data();
        constexpr auto kBits = static_cast<index_t>(kWordBits);
        passes_.each_in_step(
            count_,
            SPMVGPU_BODY(const Lanes& lanes, std::int64_t t) {
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
            SPMVGPU_BODY(const Lanes& lanes, std::int64_t i) {
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
        // The memory that a slice takes, and the steps that there may be.
        Array<std::int64_t> words_of = passes_.template scratch<std::int64_t>(slice_count_);
        uses_before_ = passes_.template scratch<std::int64_t>(slice_count_ + std::size_t(1));
        std::int64_t *const words = words_of.data(), *const uses = uses_before_.data();
        passes_.each(
            slice_count_, SPMVGPU_BODY(std::int64_t slice) {
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
        // Those of hubs, for which near memory is too small, by themselves.
        const auto most = largest<std::int64_t>(
            passes_, slice_count_, SPMVGPU_BODY(std::int64_t s) { return words[s]; });
        if (most <= kFastWords) return schedule_slices(slice_count_, nullptr, words, most);
        schedule_slices(slice_count_, nullptr, words, kFastWords);
        const Array<index_t> large = select(
            passes_, slice_count_, SPMVGPU_BODY(std::int64_t s) { return words[s] > kFastWords; });
        schedule_slices(static_cast<index_t>(large.size()), large.data(), words, most);
    }

    // Those of so many slices, of all or of a list, that take at most so many words.
    void schedule_slices(index_t count, const index_t* list, const std::int64_t* words, std::int64_t most) {
        const TsmvTiles all = tiles();
        const std::int64_t* const uses_before = uses_before_.data();
        StepUse* const uses = uses_.data();
        index_t* const steps = slice_steps_.data();
        passes_.each_in_step_with(
            count, most,
            SPMVGPU_BODY(const Lanes& lanes, std::int64_t i, Word* memory) {
                const index_t s = list == nullptr ? static_cast<index_t>(i) : list[i];
                if (words[s] > most) return;
                const SliceTasks tasks = all.tasks_of(s);
                StepUse* const own_uses = uses + uses_before[s];
                const index_t taken = all.limits.is_poster()
                                          ? ListScheduler::schedule(lanes, all.limits, tasks, memory, own_uses,
                                                                    all.positions + all.begins[all.tile_of[s]])
                                          : SliceScheduler::schedule(lanes, all.limits, tasks, memory, own_uses);
                lanes.once([&] { steps[s] = taken; });
            },
            work_per_tile_);
    }

    // The nodes that have blocks, longest first.
    void sort_nodes() {
        const TsmvTiles all = tiles();
        passes_.each_in_step(
            count_,
            SPMVGPU_BODY(const Lanes& lanes, std::int64_t t) {
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
        passes_.each(
            count_, SPMVGPU_BODY(std::int64_t t) {
                for (index_t s = slices[t]; s < slices[t + 1]; ++s) tile_of[s] = static_cast<index_t>(t);
            });
    }

    // Steps of a tile that is scheduled.
    static constexpr std::int64_t steps_of(const TsmvTiles& all, const index_t* steps, std::int64_t t) {
        std::int64_t sum = 0;
        for (index_t s = all.slices[t]; s < all.slices[t + 1]; ++s) sum += steps[s];
        return sum;
    }

    // Halves the tiles of several nodes that a thread block's shared memory does not hold. Whether there are any.
    bool cut_what_does_not_fit(bool is_scheduled) {
        const TsmvTiles all = tiles();
        const index_t* const steps = is_scheduled ? slice_steps_.data() : nullptr;
        Array<index_t> cuts_before = passes_.template scratch<index_t>(count_ + std::size_t(1));
        index_t* const cuts = cuts_before.data();
        passes_.each(
            count_, SPMVGPU_BODY(std::int64_t t) {
                const std::int64_t local = std::int64_t(all.halo[t]) + all.nodes_of(t);
                cuts[t] = all.nodes_of(t) > 1 && !all.limits.fits(local, steps ? steps_of(all, steps, t) : 0);
            });
        const index_t more = passes_.scan(cuts, count_);
        if (more == 0) return false;
        const Array<index_t> begins_before = begins_;
        const index_t* const begins = begins_before.data();
        const index_t count = count_;
        set_tile_count(count + more);
        index_t* const to = begins_.data();
        passes_.each(
            std::int64_t(count) + 1, SPMVGPU_BODY(std::int64_t t) {
                const std::int64_t place = t + cuts[t];
                to[place] = begins[t];
                if (t == count || cuts[t] == cuts[t + 1]) return;
                // In whole warps, if there are several.
                constexpr index_t kWarp = TsmvLimits::kWarp;
                const index_t nodes = begins[t + 1] - begins[t], half = nodes / 2;
                to[place + 1] = begins[t] + (nodes > kWarp ? (half + kWarp - 1) / kWarp * kWarp : half);
            });
        return true;
    }

    // Drops the blocks in the last steps of each slice where that saves much memory and most of the steps: those of a
    // hub, which hold hardly anything but its own blocks. Whether there are any.
    bool drop_costly_steps() {
        constexpr std::int64_t kWorthDropping = 3;  // a third of the tile
        const TsmvTiles all = tiles();
        const index_t* const steps = slice_steps_.data();
        const std::int64_t* const uses_before = uses_before_.data();
        const StepUse* const uses = uses_.data();
        Array<index_t> kept_steps = passes_.template scratch<index_t>(slice_count_);
        Array<Mark> marks = passes_.template scratch<Mark>(count_ + std::size_t(1));
        index_t* const kept = kept_steps.data();
        Mark *const mark = marks.data(), *const any = mark + count_;
        passes_.fill(any, 1, Mark(0));
        const std::int64_t slot = limits_.slot_bytes();
        const std::int64_t twice_in_csr =
            2 * std::int64_t(limits_.block) * limits_.block * (limits_.value_bytes + sizeof(index_t));
        passes_.each(
            count_,
            SPMVGPU_BODY(std::int64_t t) {
                std::int64_t before = 0, after = 0, steps_before = 0, steps_after = 0;
                for (index_t s = all.slices[t]; s < all.slices[t + 1]; ++s) {
                    const StepUse* const own = uses + uses_before[s];
                    const index_t threads = all.threads_of(s);
                    std::int64_t bytes = 0;
                    for (index_t k = 0; k < steps[s]; ++k) bytes += all.limits.slots(own[k], threads) * slot;
                    before += bytes;
                    // From the last step on: what is left when this step and all after it are dropped.
                    std::int64_t best = bytes;
                    kept[s] = steps[s];
                    for (index_t k = steps[s] - 1; k >= 0; --k) {
                        bytes += own[k].blocks * twice_in_csr - all.limits.slots(own[k], threads) * slot;
                        if (bytes >= best) continue;
                        best = bytes;
                        kept[s] = k;
                    }
                    after += best;
                    steps_before += steps[s];
                    steps_after += kept[s];
                }
                mark[t] = (before - after) * kWorthDropping > before && 2 * steps_after <= steps_before;
                if (mark[t] != 0) set_mark(any);
            },
            work_per_tile_);
        if (passes_.read(any) == 0) return false;
        passes_.each_in_step(
            count_,
            SPMVGPU_BODY(const Lanes& lanes, std::int64_t t) {
                if (mark[t] == 0) return;
                const index_t begin = all.begins[t];
                lanes.share(all.nodes_of(t), [&](index_t n) {
                    const std::uint16_t position = all.positions[begin + n];
                    if (position == TsmvLayout::kNone) return;
                    const index_t most = kept[all.slices[t] + position / all.limits.threads];
                    for (index_t k = all.offsets[begin + n]; k < all.offsets[begin + n + 1]; ++k) {
                        if (all.blocks[k].step >= most) all.blocks[k].step = Placement::kDropped;
                    }
                });
            },
            work_per_tile_);
        return true;
    }

    // Takes the dropped blocks of tiles back in where that costs some more steps only.
    void take_back() {
        constexpr std::int64_t kFewSteps = 64;
        const index_t blocks = pattern_.blocks;
        Array<Mark> drops = passes_.template scratch<Mark>(blocks), marks = passes_.template scratch<Mark>(count_);
        Mark *const dropped = drops.data(), *const mark = marks.data();
        {
            const TsmvTiles all = tiles();
            passes_.each(
                blocks, SPMVGPU_BODY(std::int64_t k) { dropped[k] = !all.is_kept(static_cast<index_t>(k)); });
            passes_.each_in_step(
                count_,
                SPMVGPU_BODY(const Lanes& lanes, std::int64_t t) {
                    const index_t first = all.first_block(t);
                    const index_t any = lanes.largest_of(
                        all.blocks_of(t), [&](index_t i) { return index_t(dropped[first + i]); }, 0);
                    lanes.once([&] { mark[t] = any != 0; });
                },
                work_per_tile_);
        }
        begin_blocks(mark);
        number_columns();
        schedule();
        const TsmvTiles all = tiles();
        const index_t* const steps = slice_steps_.data();
        const auto too_many = passes_.template reduce<std::int64_t>(
            count_, SPMVGPU_BODY(std::int64_t t) {
                const std::int64_t count = steps_of(all, steps, t);
                const bool is_worse =
                    mark[t] != 0 && (count > kFewSteps || !all.limits.fits(all.local_nodes(t), count));
                mark[t] = is_worse;
                return std::int64_t(is_worse);
            });
        if (too_many == 0) return;
        passes_.each_in_step(
            count_,
            SPMVGPU_BODY(const Lanes& lanes, std::int64_t t) {
                if (mark[t] == 0) return;
                const index_t first = all.first_block(t);
                lanes.share(all.blocks_of(t), [&](index_t i) {
                    if (dropped[first + i] != 0) all.blocks[first + i].step = Placement::kDropped;
                });
            },
            work_per_tile_);
        number_columns();
        schedule();
    }

    struct Kept {
        std::int64_t entries = 0, remainder = 0;

        constexpr Kept& operator+=(const Kept& other) {
            entries += other.entries;
            remainder += other.remainder;
            return *this;
        }
    };
    Kept count_entries() {
        const TsmvTiles all = tiles();
        const index_t* const first_rows = pattern_.rows.data();
        return passes_.template reduce<Kept>(
            pattern_.nodes,
            SPMVGPU_BODY(std::int64_t node) {
                Kept kept;
                const std::int64_t rows = first_rows[node + 1] - first_rows[node];
                for (index_t k = all.offsets[node]; k < all.offsets[node + 1]; ++k) {
                    const index_t column = all.columns[k];
                    const std::int64_t entries = rows * (first_rows[column + 1] - first_rows[column]);
                    if (all.is_kept(k)) {
                        kept.entries += entries;
                    } else {
                        kept.remainder += column < node ? 2 * entries : entries;
                    }
                }
                return kept;
            },
            kNanosecondsPerBlock);
    }

    // The arrays of the layout.
    TsmvLayout finish(const Kept& kept) {
        TsmvLayout layout;
        layout.limits = limits_;
        layout.pattern = pattern_;
        layout.blocks = blocks_;
        layout.positions = positions_;
        layout.tile_count = count_;
        layout.slices = slice_count_;
        layout.entries = kept.entries;
        layout.remainder = kept.remainder;
        const TsmvTiles all = tiles();
        const index_t* const counts = slice_steps_.data();
        layout.shared_bytes = largest<std::int64_t>(
            passes_, count_, SPMVGPU_BODY(std::int64_t t) {
                return all.limits.shared_bytes(all.local_nodes(t), steps_of(all, counts, t));
            });
        list_halos(layout);
        list_steps(layout);
        return layout;
    }

    void list_halos(TsmvLayout& layout) {
        const TsmvTiles all = tiles();
        const index_t count = count_;
        Array<index_t> halos = passes_.template scratch<index_t>(count + std::size_t(1));
        index_t* const before = halos.data();
        passes_.each(
            count, SPMVGPU_BODY(std::int64_t t) { before[t] = all.halo[t]; });
        layout.halo = passes_.scan(before, count);
        layout.halo_nodes = passes_.template make<index_t>(layout.halo);
        layout.tiles = passes_.template make<TsmvTile>(count + std::size_t(1));
        index_t* const halo_nodes = layout.halo_nodes.data();
        TsmvTile* const to = layout.tiles.data();
        passes_.each(
            std::int64_t(count) + 1, SPMVGPU_BODY(std::int64_t t) {
                to[t] = {all.begins[t], before[t], all.slices[t]};
            });
        passes_.each_in_step(
            count,
            SPMVGPU_BODY(const Lanes& lanes, std::int64_t t) {
                const index_t first = all.first_block(t);
                lanes.share(all.blocks_of(t), [&](index_t i) {
                    const index_t k = first + i;
                    if (all.is_in_halo(k, t)) halo_nodes[before[t] + all.blocks[k].column] = all.columns[k];
                });
            },
            work_per_tile_);
    }

    void list_steps(TsmvLayout& layout) {
        const TsmvTiles all = tiles();
        const StepUse* const uses = uses_.data();
        const std::int64_t* const uses_before = uses_before_.data();
        layout.slice_steps = slice_steps_;
        index_t* const steps = layout.slice_steps.data();
        layout.slots = passes_.template reduce<std::int64_t>(
            slice_count_, SPMVGPU_BODY(std::int64_t slice) {
                const auto s = static_cast<index_t>(slice);
                std::int64_t slots = 0;
                for (index_t k = 0; k < steps[s]; ++k) {
                    slots += all.limits.slots(uses[uses_before[s] + k], all.threads_of(s));
                }
                return slots;
            });
        layout.steps = passes_.scan(steps, slice_count_);
        layout.step_offsets = passes_.template make<index_t>(layout.steps + std::size_t(1));
        index_t* const slots = layout.step_offsets.data();
        passes_.each_in_step(
            slice_count_,
            SPMVGPU_BODY(const Lanes& lanes, std::int64_t slice) {
                const auto s = static_cast<index_t>(slice);
                const index_t threads = all.threads_of(s);
                lanes.share(steps[s + 1] - steps[s], [&](index_t k) {
                    slots[steps[s] + k] = all.limits.slots(uses[uses_before[s] + k], threads);
                });
            },
            kNanosecondsPerBlock);
        if (layout.slots <= std::numeric_limits<index_t>::max()) passes_.scan(slots, layout.steps);
    }

    // body(from, to, size) for runs of places, of which each begins where `before` says, so that as many of all take
    // `most` together, or one if it alone takes more.
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
    static constexpr std::int64_t kNanosecondsPerBlock = 20;

    Passes& passes_;
    const NodePattern& pattern_;
    TsmvLimits limits_;
    std::int64_t work_per_tile_;
    index_t count_ = 0, slice_count_ = 0;
    Array<Placement> blocks_;
    Array<std::uint16_t> positions_;
    Array<index_t> begins_, halo_, lengths_, order_, tasks_, highest_, degrees_, slices_, tile_of_;  // see TsmvTiles
    Array<std::int64_t> uses_before_;  // of each slice, and the end
    Array<StepUse> uses_;
    Array<index_t> slice_steps_;  // of each slice
};

}  // namespace spmvgpu
