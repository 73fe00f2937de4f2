// Where steps run, in order: at once on the CPU, or queued on a stream of a GPU. with_queue() picks.
#pragma once

#include <utility>
#include <vector>

#include "core/parallel.hpp"
#include "vector/step.hpp"
#ifdef SPMVGPU_CUDA
#include "vector/cuda_queue.cuh"
#endif

namespace spmvgpu {

class HostQueue {
public:
    Stream stream() const { return nullptr; }

    // Runs a step over the elements 0 to n - 1.
    template <class State, class Step>
    void sweep(index_t n, State* state, const Step& step) {
        static_assert(Step::kSums <= kMaxSums);
        if (step.idle(*state)) return;
        const auto sums = parallel_sum<Sums<Step::kSums>>(
            n, n, [&](std::int64_t begin, std::int64_t end) { return sweep_part(begin, end, *state, step); });
        if constexpr (Step::kSums > 0) step.then(*state, sums);
    }

    template <class State>
    State read(const State* state) {
        return *state;
    }

    // Calls iterate(), which queues one iteration, for as long as look() finds that there is more to do. The GPU looks
    // less often, unless told to look after each iteration.
    template <class Iterate, class Look>
    void repeat(bool /*look_each*/, Iterate&& iterate, Look&& look) {
        do iterate();
        while (look());
    }

private:
    // State by value, so that the compiler sees that no element written changes it.
    template <class State, class Step>
    SPMVGPU_SIMD_CLONES static Sums<Step::kSums> sweep_part(std::int64_t begin, std::int64_t end, const State state,
                                                            const Step step) {
        double sum0 = 0, sum1 = 0, sum2 = 0;
#pragma omp simd reduction(+ : sum0, sum1, sum2)
        for (std::int64_t k = begin; k < end; ++k) {
            const auto i = static_cast<index_t>(k);
            const Sums<Step::kSums> sums = step.apply(state, i, step.load(i));
            if constexpr (Step::kSums > 0) sum0 += sums[0];
            if constexpr (Step::kSums > 1) sum1 += sums[1];
            if constexpr (Step::kSums > 2) sum2 += sums[2];
        }
        Sums<Step::kSums> total;
        if constexpr (Step::kSums > 0) total.value[0] = sum0;
        if constexpr (Step::kSums > 1) total.value[1] = sum1;
        if constexpr (Step::kSums > 2) total.value[2] = sum2;
        return total;
    }
};

// Calls visit(queue) with a queue on the device, whose work comes after what `after` holds now, if that is given.
template <class Visit>
auto with_queue([[maybe_unused]] Device device, [[maybe_unused]] const Stream* after, Visit&& visit) {
#ifdef SPMVGPU_CUDA
    if (device.is_cuda()) {
        cuda::CudaQueue queue(device.ordinal);
        if (after) queue.wait_for(*after);
        return std::forward<Visit>(visit)(queue);
    }
#endif
    HostQueue queue;
    return std::forward<Visit>(visit)(queue);
}

}  // namespace spmvgpu
