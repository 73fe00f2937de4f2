// Task scheduling for `tsmv`: which block of the stored triangle each thread works on at each step, so that the threads
// add to y without meeting. On local numbers alone: it knows neither matrices nor values.
#pragma once

#include <cstdint>
#include <span>

#include "core/host_vector.hpp"

namespace spmvgpu {

// Where a block goes: its column in the numbering of its tile, and the step at which its thread works on it.
struct Placement {
    static constexpr std::uint16_t kDropped = 0xFFFF;  // as a step: it is not among the blocks to schedule

    std::uint16_t column = 0, step = 0;
};

// The blocks of one node, to be worked on by one thread.
struct NodeTask {
    static constexpr std::uint16_t kNone = 0xFFFF;  // as a position

    std::span<Placement> blocks;
    std::uint16_t node;      // in the numbering of the tile; the block in this column adds to no other row
    std::uint16_t length;    // blocks that are not dropped
    std::uint16_t position;  // slice of the tile times threads, plus thread
};

struct StepUse {
    std::uint16_t blocks = 0;   // that are worked on in the step
    std::uint16_t threads = 0;  // threads up to the last of these
};

// Schedules a slice: a node for each thread, longest first. No two threads work on the same column in one step; where
// there is a choice, they read different banks of shared memory. That is the edge colouring of a bipartite graph, for
// which as many steps suffice as the longest row or column has blocks (Koenig); taking a step at which both are free
// needs hardly any more.
class SliceScheduler {
public:
    // `banks`: values that shared memory serves at once, in so many neighbouring threads; `stride`: values of a column.
    SliceScheduler(int banks, int stride) : banks_(banks), stride_(stride) {}

    // Places all blocks of the tasks, task t being thread t's; `columns` is how many the tile has. Appends to `steps`.
    void schedule(std::span<NodeTask> tasks, int columns, HostVector<StepUse>& steps);

private:
    int find_step(const std::uint64_t* used_by_column, int limit, int group, std::uint32_t bank) const;

    int banks_, stride_;
    int words_ = 0, groups_ = 0;
    HostVector<std::uint16_t> degrees_;         // of the columns
    HostVector<std::uint64_t> used_by_node_;    // bit s: the node at hand has a block in step s
    HostVector<std::uint64_t> used_by_column_;  // the same for every column
    HostVector<std::uint32_t> used_banks_;      // by each group of threads in each step
};

// The poster's list schedule: each thread works on a row until that is done, then takes the next one. In one step no
// two threads work on the same column, nor does one finish a row that another works on as a column. Sets the tasks'
// positions. What does not fit into the steps that a Placement can count is dropped.
void schedule_list(std::span<NodeTask> tasks, int threads, int columns, HostVector<StepUse>& steps);

}  // namespace spmvgpu
