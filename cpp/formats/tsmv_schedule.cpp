#include "formats/tsmv_schedule.hpp"

#include <algorithm>
#include <bit>

namespace spmvgpu {

namespace {

constexpr int kWarp = 32;
constexpr int kBits = 64;

}  // namespace

// The first step at which both node and column are free, without a bank conflict if there is one below `limit`.
int SliceScheduler::find_step(const std::uint64_t* used_by_column, int limit, int group, std::uint32_t bank) const {
    int first = -1;
    for (int w = 0; w < words_; ++w) {
        std::uint64_t free = ~(used_by_node_[w] | used_by_column[w]);
        for (; free != 0; free &= free - 1) {
            const int step = w * kBits + std::countr_zero(free);
            if (step >= limit) return first >= 0 ? first : step;
            if ((used_banks_[step * groups_ + group] & bank) == 0) return step;
            if (first < 0) first = step;
        }
    }
    return first;
}

void SliceScheduler::schedule(std::span<NodeTask> tasks, int columns, HostVector<StepUse>& steps) {
    int longest = 0, highest = 0;
    degrees_.assign(columns, 0);
    for (const NodeTask& task : tasks) {
        longest = std::max<int>(longest, task.length);
        for (const Placement& block : task.blocks) {
            if (block.step == Placement::kDropped || block.column == task.node) continue;
            highest = std::max<int>(highest, ++degrees_[block.column]);
        }
    }
    // A block finds a free step below this whatever came before it.
    words_ = (longest + highest + kBits - 1) / kBits;
    groups_ = (static_cast<int>(tasks.size()) + banks_ - 1) / banks_;
    used_by_column_.assign(static_cast<std::size_t>(columns) * words_, 0);
    used_banks_.assign(static_cast<std::size_t>(words_) * kBits * groups_, 0);
    const std::size_t first = steps.size();
    steps.resize(first + words_ * kBits);

    HostVector<std::uint64_t> own(words_);  // in place of the node's own column, which nobody adds to
    int limit = 0;
    for (std::size_t thread = 0; thread < tasks.size(); ++thread) {
        const NodeTask& task = tasks[thread];
        const int group = static_cast<int>(thread) / banks_;
        // Steps that are stored anyway, for the longest node of the warp.
        if (thread % kWarp == 0) limit = task.length;
        used_by_node_.assign(words_, 0);
        for (Placement& block : task.blocks) {
            if (block.step == Placement::kDropped) continue;
            const bool adds = block.column != task.node;
            std::uint64_t* const used = adds ? &used_by_column_[block.column * words_] : own.data();
            const std::uint32_t bank = std::uint32_t(1) << block.column * stride_ % banks_;
            const int step = find_step(used, limit, group, bank);
            const std::uint64_t bit = std::uint64_t(1) << step % kBits;
            used_by_node_[step / kBits] |= bit;
            if (adds) used[step / kBits] |= bit;
            used_banks_[step * groups_ + group] |= bank;
            block.step = static_cast<std::uint16_t>(step);
            StepUse& use = steps[first + step];
            ++use.blocks;
            use.threads = static_cast<std::uint16_t>(thread + 1);
        }
    }
    while (steps.size() > first && steps.back().blocks == 0) steps.pop_back();
}

void schedule_list(std::span<NodeTask> tasks, int threads, int columns, HostVector<StepUse>& steps) {
    struct Worker {
        const NodeTask* task = nullptr;
        HostVector<Placement*> open;  // blocks of its row that are not placed
    };
    HostVector<Worker> workers(threads);
    HostVector<int> claims(columns, -1);  // last step in which somebody adds to the column
    std::size_t next = 0, left = 0;
    for (const NodeTask& task : tasks) left += task.length;

    // The block that the worker can take in this step, or how many there are.
    const auto choose = [&](const Worker& worker, int step) {
        const std::uint16_t row = worker.task->node;
        const bool finishes = worker.open.size() == 1;
        if (finishes && claims[row] == step) return worker.open.size();
        std::size_t i = 0;
        while (i < worker.open.size() && worker.open[i]->column != row && claims[worker.open[i]->column] == step) ++i;
        return i;
    };
    for (int step = 0; left > 0 && step < Placement::kDropped; ++step) {
        StepUse use;
        for (int thread = 0; thread < threads; ++thread) {
            Worker& worker = workers[thread];
            if (worker.open.empty()) {
                if (next == tasks.size()) continue;
                NodeTask& task = tasks[next++];
                task.position = static_cast<std::uint16_t>(thread);
                worker.task = &task;
                for (Placement& block : task.blocks) {
                    if (block.step != Placement::kDropped) worker.open.push_back(&block);
                }
            }
            const std::size_t i = choose(worker, step);
            if (i == worker.open.size()) continue;
            Placement& block = *worker.open[i];
            if (block.column != worker.task->node) claims[block.column] = step;
            if (worker.open.size() == 1) claims[worker.task->node] = step;
            block.step = static_cast<std::uint16_t>(step);
            worker.open.erase(worker.open.begin() + i);
            ++use.blocks;
            use.threads = static_cast<std::uint16_t>(thread + 1);
            --left;
        }
        steps.push_back(use);
    }
    for (const Worker& worker : workers) {
        for (Placement* block : worker.open) block->step = Placement::kDropped;
    }
    for (; next < tasks.size(); ++next) {
        tasks[next].position = NodeTask::kNone;
        for (Placement& block : tasks[next].blocks) block.step = Placement::kDropped;
    }
}

}  // namespace spmvgpu
