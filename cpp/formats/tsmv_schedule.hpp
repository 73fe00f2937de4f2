// Task scheduling for `tsmv`: which block of the stored triangle each thread works on at each step, so that the threads
// add to y without meeting. On the numbers of one tile alone: it knows neither matrices nor values. Written for lanes
// in step, see passes/lanes.hpp: a slice is scheduled by one warp of a GPU, or by one thread of the CPU.
#pragma once

#include <bit>
#include <cstdint>

#include "formats/tsmv_plan.hpp"
#include "passes/passes.hpp"

namespace spmvgpu {

// The nodes of a slice, each with its blocks: those of its columns that are not dropped.
struct SliceTasks {
    index_t count;           // of nodes, longest first
    const index_t* nodes;    // their numbers in the tile's own nodes
    const index_t* lengths;  // blocks that are not dropped, of each of the tile's nodes
    const index_t* offsets;  // of each of the tile's nodes: its first block
    Placement* blocks;
    index_t halo;     // columns before the first of the tile's own nodes
    index_t columns;  // of the tile

    // In the numbering of the tile; the block in this column adds to no other row.
    constexpr index_t own_column(index_t task) const { return halo + nodes[task]; }
};

SPMVGPU_IN_BODY int lowest_bit(Word word) {
#ifdef __CUDA_ARCH__
    return __ffs(static_cast<int>(word)) - 1;
#else
    return std::countr_zero(word);
#endif
}

// No two threads work on the same column in one step; where there is a choice, they read different banks of shared
// memory. That is the edge colouring of a bipartite graph, for which as many steps suffice as the longest row or column
// has blocks (Koenig); taking a step at which both are free needs hardly any more.
class SliceScheduler {
public:
    // A block finds a free step below this whatever came before it: a column has one block of a node at most.
    static constexpr index_t most_steps(index_t longest, index_t tasks) { return longest + tasks; }
    // Memory for a slice: for each 32 steps a set of those that are taken, for every column, for every bank that each
    // group of threads reads, and for the node at hand.
    static constexpr std::int64_t words_of_slice(const TsmvLimits& limits, index_t longest, index_t tasks,
                                                 index_t columns) {
        return words_for(most_steps(longest, tasks)) * row_words(limits, tasks, columns);
    }

    // Places all blocks, task t being thread t's, and counts in `uses`, which is zero. Returns how many steps it takes.
    template <class Lanes>
    static SPMVGPU_IN_BODY index_t schedule(const Lanes& lanes, const TsmvLimits& limits, const SliceTasks& tasks,
                                            Word* words, StepUse* uses) {
        const std::int64_t row = row_words(limits, tasks.count, tasks.columns);
        const index_t banks = banks_of(limits), at_node = tasks.columns, at_banks = tasks.columns + 1;
        index_t open = 0;   // rows of words in use
        index_t steps = 0;  // up to the last one in use
        index_t limit = 0;  // steps that are stored anyway, for the longest node of the warp
        for (index_t thread = 0; thread < tasks.count; ++thread) {
            const index_t node = tasks.nodes[thread], own = tasks.own_column(thread);
            if (thread % TsmvLimits::kWarp == 0) limit = tasks.lengths[node];
            lanes.once([&] {
                for (index_t w = 0; w < open; ++w) words[w * row + at_node] = 0;
            });
            lanes.meet();
            for (index_t k = tasks.offsets[node]; k < tasks.offsets[node + 1]; ++k) {
                const Placement block = tasks.blocks[k];
                if (block.step == Placement::kDropped) continue;
                const bool adds = block.column != own;
                const index_t at_bank = at_banks + thread / banks * banks + block.column * limits.block % banks;
                // The first step at which node and column are free, without a bank conflict if there is one below the
                // limit.
                index_t first_free = -1, step = -1;
                for (index_t w = 0; step < 0; ++w) {
                    Word* const taken = words + w * row;
                    if (w == open) {
                        lanes.share(static_cast<index_t>(row), [&](index_t i) { taken[i] = 0; });
                        lanes.meet();
                        ++open;
                    }
                    const Word free = ~(taken[at_node] | (adds ? taken[block.column] : 0));
                    if (free == 0) continue;
                    const auto first = static_cast<index_t>(kWordBits * w), left = limit - first;
                    const Word below_limit = left >= kWordBits ? ~Word(0) : left > 0 ? (Word(1) << left) - 1 : 0;
                    const Word clean = free & ~taken[at_bank] & below_limit;
                    if (first_free < 0) first_free = first + lowest_bit(free);
                    if (clean != 0) {
                        step = first + lowest_bit(clean);
                    } else if (left <= kWordBits) {
                        step = first_free;
                    }
                }
                lanes.once([&] {
                    Word* const taken = words + step / kWordBits * row;
                    const Word bit = Word(1) << step % kWordBits;
                    taken[at_node] |= bit;
                    if (adds) taken[block.column] |= bit;
                    taken[at_bank] |= bit;
                    tasks.blocks[k].step = static_cast<std::uint16_t>(step);
                    ++uses[step].blocks;
                    uses[step].threads = static_cast<std::uint16_t>(thread + 1);
                });
                lanes.meet();
                if (step >= steps) steps = step + 1;
            }
        }
        return steps;
    }

private:
    static constexpr int kBankBytes = 128;  // that shared memory serves at once, in so many neighbouring threads
    static constexpr index_t banks_of(const TsmvLimits& limits) { return kBankBytes / limits.value_bytes; }
    static constexpr std::int64_t row_words(const TsmvLimits& limits, index_t tasks, index_t columns) {
        const index_t banks = banks_of(limits);
        return std::int64_t(columns) + 1 + (tasks + banks - 1) / banks * banks;
    }
};

// The poster's list schedule: each thread works on a row until that is done, then takes the next one. In one step no
// two threads work on the same column, nor does one finish a row that another works on as a column. By one lane, as
// everything waits for what came before it.
class ListScheduler {
public:
    static constexpr index_t most_steps(index_t blocks) {
        return blocks < Placement::kDropped ? blocks : Placement::kDropped;
    }
    // Memory for a tile: for every column the last step in which somebody adds to it, for every thread its task and how
    // many of its blocks are left.
    static constexpr std::int64_t words_of_tile(const TsmvLimits& limits, index_t columns) {
        return columns + 2 * std::int64_t(limits.threads);
    }

    // Places the blocks of all tasks and sets the positions of the tile's nodes, their threads. What does not fit into
    // the steps that a Placement can count is dropped. Returns how many steps it takes.
    template <class Lanes>
    static SPMVGPU_IN_BODY index_t schedule(const Lanes& lanes, const TsmvLimits& limits, const SliceTasks& tasks,
                                            Word* words, StepUse* uses, std::uint16_t* positions) {
        index_t* const claims = reinterpret_cast<index_t*>(words);
        index_t *const task_of = claims + tasks.columns, *const left_of = task_of + limits.threads;
        lanes.share(tasks.columns, [&](index_t c) { claims[c] = -1; });
        lanes.share(limits.threads, [&](index_t thread) { left_of[thread] = 0; });
        lanes.share(tasks.count, [&](index_t t) {  // not placed yet
            const index_t node = tasks.nodes[t];
            for (index_t k = tasks.offsets[node]; k < tasks.offsets[node + 1]; ++k) {
                if (tasks.blocks[k].step != Placement::kDropped) tasks.blocks[k].step = kOpen;
            }
        });
        const index_t all = lanes.add_up(
            tasks.count, [&](index_t t) { return tasks.lengths[tasks.nodes[t]]; }, [](index_t, index_t) {});
        lanes.once([&] { place_all(limits, tasks, all, claims, task_of, left_of, uses, positions); });
        lanes.meet();
        index_t steps = 0;
        while (steps < most_steps(all) && uses[steps].blocks > 0) ++steps;
        return steps;
    }

private:
    static constexpr std::uint16_t kOpen = Placement::kDropped - 1;

    static SPMVGPU_IN_BODY void place_all(const TsmvLimits& limits, const SliceTasks& tasks, index_t left,
                                          index_t* claims, index_t* task_of, index_t* left_of, StepUse* uses,
                                          std::uint16_t* positions) {
        index_t next = 0;
        for (index_t step = 0; left > 0 && step < kOpen; ++step) {
            StepUse use;
            for (index_t thread = 0; thread < limits.threads; ++thread) {
                if (left_of[thread] == 0) {
                    if (next == tasks.count) continue;
                    task_of[thread] = next;
                    left_of[thread] = tasks.lengths[tasks.nodes[next]];
                    positions[tasks.nodes[next++]] = static_cast<std::uint16_t>(thread);
                }
                const index_t own = tasks.own_column(task_of[thread]);
                const index_t node = tasks.nodes[task_of[thread]], end = tasks.offsets[node + 1];
                const bool finishes = left_of[thread] == 1;
                if (finishes && claims[own] == step) continue;
                index_t k = tasks.offsets[node];
                for (; k < end; ++k) {
                    const Placement& block = tasks.blocks[k];
                    if (block.step == kOpen && (block.column == own || claims[block.column] != step)) break;
                }
                if (k == end) continue;
                if (tasks.blocks[k].column != own) claims[tasks.blocks[k].column] = step;
                if (finishes) claims[own] = step;
                tasks.blocks[k].step = static_cast<std::uint16_t>(step);
                --left_of[thread];
                --left;
                ++use.blocks;
                use.threads = static_cast<std::uint16_t>(thread + 1);
            }
            uses[step] = use;
        }
        for (index_t t = 0; left > 0 && t < tasks.count; ++t) {
            const index_t node = tasks.nodes[t];
            for (index_t k = tasks.offsets[node]; k < tasks.offsets[node + 1]; ++k) {
                if (tasks.blocks[k].step == kOpen) tasks.blocks[k].step = Placement::kDropped;
            }
            if (t >= next) positions[node] = TsmvLayout::kNone;
        }
    }
};

}  // namespace spmvgpu
