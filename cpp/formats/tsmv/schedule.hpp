// Task scheduling for `tsmv`: the block of the stored triangle that each thread multiplies at each step, so that no two
// threads add to the same y. It works on the numbers of one tile alone, without matrices and values. It is written for
// lanes in step, see core/passes/lanes.hpp: one warp of a GPU, or one thread of the CPU, schedules a slice.
#pragma once

#include <cstdint>

#include "core/passes/passes.hpp"
#include "formats/tsmv/plan.hpp"

namespace spmvgpu {

// The nodes of a slice, each with its blocks, for the columns that are not dropped.
struct SliceTasks {
    index_t count;           // number of nodes, longest first
    const index_t* nodes;    // their numbers among the tile's own nodes
    const index_t* lengths;  // for each of the tile's nodes: blocks that are not dropped
    const index_t* offsets;  // for each of the tile's nodes: its first block
    Placement* blocks;
    index_t halo;     // columns before the first of the tile's own nodes
    index_t columns;  // columns of the tile

    // The column in the numbering of the tile whose block adds to no other row.
    constexpr index_t own_column(index_t task) const { return halo + nodes[task]; }
};

SPMVGPU_IN_BODY void fetch_early(const void* address) {
#ifdef __CUDA_ARCH__
    asm volatile("prefetch.global.L1 [%0];" : : "l"(address));
#else
    __builtin_prefetch(address);
#endif
}

// No two threads add to the same column in one step, and if there is a choice, they read different banks of shared
// memory. This is the edge colouring of a bipartite graph, for which as many steps suffice as the longest row or column
// has blocks (Koenig). The greedy choice of a step in which both are free needs hardly any more.
class SliceScheduler {
public:
    // A block always finds a free step below this bound, if no column has more than `highest` blocks.
    static constexpr index_t most_steps(index_t longest, index_t highest) { return longest + highest; }
    // Memory for a slice: for each 32 steps a mask of the occupied ones, for every column, for every bank that each
    // group of threads reads, and for the current node; and the use of each step.
    static SPMVGPU_IN_BODY std::int64_t words_of_slice(const TsmvLimits& limits, index_t steps, index_t tasks,
                                                       index_t columns) {
        return words_for(steps) * Row(limits, tasks, columns).words;
    }

    // Places all blocks, with task t in thread t, and stores the use of the steps in `uses`. Returns the number of
    // steps.
    template <class Lanes>
    static SPMVGPU_IN_BODY index_t schedule(const Lanes& lanes, const TsmvLimits& limits, const SliceTasks& tasks,
                                            Word* words, StepUse* uses) {
        const Row row(limits, tasks.count, tasks.columns);
        index_t open = 0;   // rows of words in use
        index_t steps = 0;  // up to the last one in use
        constexpr index_t kLanes = Lanes::kCount;
        for (index_t first = 0; first < tasks.count; first += kLanes) {
            typename Lanes::template PerLane<index_t> begins, ends, owns;
            lanes.each([&](int lane) {
                const index_t task = first + lane, node = task < tasks.count ? tasks.nodes[task] : -1;
                begins[lane] = node < 0 ? 0 : tasks.offsets[node];
                ends[lane] = node < 0 ? 0 : tasks.offsets[node + 1];
                owns[lane] = tasks.halo + node;
                if (begins[lane] < ends[lane]) fetch_early(tasks.blocks + begins[lane]);
            });
            // Steps that are stored in any case, for the longest node of the warp.
            const index_t limit = tasks.lengths[tasks.nodes[first]];
            for (index_t thread = first; thread < tasks.count && thread < first + kLanes; ++thread) {
                const int i = thread - first;
                const index_t begin = lanes.of(i, [&](int lane) { return begins[lane]; });
                const index_t end = lanes.of(i, [&](int lane) { return ends[lane]; });
                const index_t own = lanes.of(i, [&](int lane) { return owns[lane]; });
                lanes.share(open, [&](index_t w) { words[w * row.words + row.node] = 0; });
                for (index_t chunk = begin; chunk < end; chunk += kLanes) {
                    typename Lanes::template PerLane<Placement> held;
                    lanes.each([&](int lane) {
                        if (chunk + lane < end) held[lane] = tasks.blocks[chunk + lane];
                    });
                    for (int j = 0; j < kLanes && chunk + j < end; ++j) {
                        const Placement block = lanes.of(j, [&](int lane) { return held[lane]; });
                        if (block.step == Placement::kDropped) continue;
                        const index_t column = block.column == own ? Row::kNoColumn : block.column;
                        const index_t bank = row.bank_of(thread, block.column);
                        const index_t step = find_step(lanes, row, words, column, bank, limit, open);
                        lanes.once([&] {
                            take(row, words, column, bank, step, thread);
                            tasks.blocks[chunk + j].step = static_cast<std::uint16_t>(step);
                        });
                        lanes.meet();
                        if (step >= steps) steps = step + 1;
                    }
                }
            }
        }
        lanes.share(steps, [&](index_t step) {
            const Word use = words[step / kWordBits * row.words + row.uses + step % kWordBits];
            uses[step] = {static_cast<std::uint16_t>(use), static_cast<std::uint16_t>(use >> 16)};
        });
        return steps;
    }

private:
    // Layout of the words for 32 steps: masks of each column, of the current node and of the banks, and the number of
    // blocks in each step, with the threads up to the last of these in the upper half.
    struct Row {
        static constexpr index_t kNoColumn = -1;  // stands for a column that receives no sums
        static constexpr int kBankBytes = 128;    // bytes that shared memory serves at once, to neighbouring threads

        SPMVGPU_IN_BODY Row(const TsmvLimits& limits, index_t tasks, index_t columns)
            : block(limits.block), banks(kBankBytes / limits.value_bytes), node(columns), first_bank(columns + 1) {
            uses = first_bank + ((tasks + banks - 1) & -banks);
            words = uses + kWordBits;
        }
        SPMVGPU_IN_BODY index_t bank_of(index_t thread, index_t column) const {
            return first_bank + (thread & -banks) + (column * block & (banks - 1));
        }

        index_t block, banks, node, first_bank, uses;  // banks: a power of two
        std::int64_t words;
    };

    // The first step at which node and column are free, without a bank conflict if there is one below the limit.
    template <class Lanes>
    static SPMVGPU_IN_BODY index_t find_step(const Lanes& lanes, const Row& row, Word* words, index_t column,
                                             index_t bank, index_t limit, index_t& open) {
        index_t first_free = -1;
        for (index_t w = 0;; ++w) {
            Word* const occupied = words + w * row.words;
            if (w == open) {
                lanes.share(static_cast<index_t>(row.words), [&](index_t i) { occupied[i] = 0; });
                ++open;
            }
            const Word free = ~(occupied[row.node] | (column == Row::kNoColumn ? 0 : occupied[column]));
            const auto first = static_cast<index_t>(kWordBits * w), left = limit - first;
            const Word below_limit = left >= kWordBits ? ~Word(0) : left > 0 ? (Word(1) << left) - 1 : 0;
            const Word clean = free & ~occupied[bank] & below_limit;
            if (clean != 0) return first + lowest_bit(clean);
            if (first_free < 0 && free != 0) first_free = first + lowest_bit(free);
            if (first_free >= 0 && left <= kWordBits) return first_free;
        }
    }

    static SPMVGPU_IN_BODY void take(const Row& row, Word* words, index_t column, index_t bank, index_t step,
                                     index_t thread) {
        constexpr auto kBits = static_cast<index_t>(kWordBits);
        Word* const occupied = words + step / kBits * row.words;
        const Word bit = Word(1) << step % kBits;
        // All are read before any is written, because the compiler cannot know that they differ.
        const index_t use = row.uses + step % kBits, maybe_column = column == Row::kNoColumn ? row.node : column;
        const Word of_node = occupied[row.node], of_column = occupied[maybe_column], of_bank = occupied[bank],
                   used = occupied[use];
        occupied[maybe_column] = of_column | bit;
        occupied[row.node] = of_node | bit;
        occupied[bank] = of_bank | bit;
        occupied[use] = ((used & 0xffff) + 1) | static_cast<Word>(thread + 1) << 16;
    }
};

// The poster's list schedule: each thread works on a row until that is done, then takes the next one. In one step no
// two threads work on the same column, and none finishes a row that another works on as a column. A single lane
// schedules, as everything depends on earlier steps.
class ListScheduler {
public:
    static constexpr index_t most_steps(index_t blocks) {
        return blocks < Placement::kDropped ? blocks : Placement::kDropped;
    }
    // Memory for a tile: for every column the last step that adds to it, for every thread its task and the number of
    // its blocks that are left.
    static constexpr std::int64_t words_of_tile(const TsmvLimits& limits, index_t columns) {
        return columns + 2 * std::int64_t(limits.threads);
    }

    // Places the blocks of all tasks and sets the positions of the tile's nodes, their threads. Blocks beyond the steps
    // that a Placement can count are dropped. Returns the number of steps.
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
