// Solver iterations with one cooperative kernel for all sweeps between two products.
//
// A sweep of a system that is not too large takes the latency of its kernel, 3 us, rather than the time of its memory
// traffic. An iteration has two or three sweeps between two products. Here they are one kernel, with a barrier of its
// blocks in place of the end of a kernel at each sum. Every thread has the same elements of the vectors in all sweeps,
// so only sums are waited for.
//
//     cg of the queue     the product, 3 sweeps at 3.1 us
//     chained             the product, a launch at 3.1 us and 2 sums at 1.4 us         3.4 us less, and 4 found
//
// An operator as preconditioner separates sweeps as a product does.
#pragma once

#include <algorithm>
#include <utility>

#include "solvers/engines/context.hpp"
#include "solvers/engines/cooperative.cuh"
#include "solvers/engines/cuda_queue.cuh"
#include "solvers/engines/grid_sums.cuh"

namespace spmvgpu::gpu {

struct ChainTuning {
    // One block on each multiprocessor, because few blocks make a barrier short. With 1024 threads a thread would lack
    // registers for the loads in flight of four vectors, as in the sweep of cg.
    static constexpr int kBlockSize = 768;
    static constexpr int kMaxBlocks = 256;
    static constexpr int kInFlightBytes = 32;  // of one vector, per thread
};

template <class T>
using ChainSums = GridSums<T, ChainTuning::kBlockSize, ChainTuning::kMaxBlocks>;

template <class T>
struct Chain {
    static constexpr std::size_t partial_bytes() { return 256 + ChainSums<T>::kBytes; }

    index_t n;
    bool has_operator;  // M is an operator
    const T* diagonal;  // M as a diagonal; null: M is none, or not a diagonal
    index_t dot_parts;  // pairs of inner products that a product leaves
    unsigned* arrivals;
    Wide<T>* partials;
};

// The run of an iteration in the kernel: the sweeps of one segment. Segments lie between two products and are counted
// from 0 within an iteration. Every block has a copy of the scalars in shared memory, as in resident.cuh.
template <class T>
class ChainRun : public RunSteps<ChainRun<T>, T> {
    static constexpr int kInFlight = ChainTuning::kInFlightBytes / sizeof(T);

public:
    __device__ __forceinline__ ChainRun(const Chain<T>& chain, int segment)
        : chain_(chain), sums_(chain.arrivals, chain.partials), wanted_(segment) {}

    __device__ bool has_preconditioner() const { return chain_.has_operator || chain_.diagonal != nullptr; }
    __device__ bool has_changed_scalars() const { return has_changed_scalars_; }

    __device__ __forceinline__ void multiply(const T*, T*) { ++segment_; }

    template <class S, class Then>
    __device__ __forceinline__ void multiply_and_dot(S* s, const T* from, T* to, const T* w, const Wide<T>* parts,
                                                     const Then& then) {
        ++segment_;
        if (segment_ != wanted_) return;
        if (parts == nullptr) return this->reduce(s, read(from, to, maybe(w)), DotsOfProduct<T>{}, then);
        if (s->stopped) return;
        Sums<T, 2> sums;
        const index_t threads = static_cast<index_t>(gridDim.x) * ChainTuning::kBlockSize;
        for (index_t i = blockIdx.x * ChainTuning::kBlockSize + threadIdx.x; i < chain_.dot_parts; i += threads) {
            sums.value[0] += parts[2 * std::size_t(i)];
            sums.value[1] += parts[2 * std::size_t(i) + 1];
        }
        add_up(s, sums, then);
    }
    template <class S>
    __device__ __forceinline__ const T* precondition(S* s, const T* from, T* to) {
        if (!has_preconditioner()) return from;
        if (chain_.has_operator) {
            ++segment_;
        } else {
            sweep(s, read(from, chain_.diagonal), write(to), TimesDiagonal<T>{});
        }
        return to;
    }

    template <class S, int kReads, unsigned kMissing, int kWrites, class Step, class Then = NoWork>
    __device__ __forceinline__ void sweep(S* s, const Reads<T, kReads, kMissing>& reads,
                                          const Writes<T, kWrites>& writes, const Step& step, const Then& then = {}) {
        if (segment_ == wanted_) sweep(s, reads, writes, step, then, std::make_integer_sequence<int, kReads>{});
    }

private:
    // Scalars change in a sweep that only sums, between two __syncthreads.
    template <class S, int kReads, unsigned kMissing, int kWrites, class Step, class Then, int... kIndex>
    __device__ __forceinline__ void sweep(S* s, const Reads<T, kReads, kMissing>& reads,
                                          const Writes<T, kWrites>& writes, const Step& step, const Then& then,
                                          std::integer_sequence<int, kIndex...> indices) {
        using Result = decltype(step(*s, reads.template at<kIndex>(0)...));
        if (s->stopped) return;
        const std::int64_t first = std::int64_t(blockIdx.x) * ChainTuning::kBlockSize + threadIdx.x;
        const std::int64_t stride = std::int64_t(gridDim.x) * ChainTuning::kBlockSize;
        const std::int64_t base = backwards_ ? last_element(chain_.n, first, stride) : first;
        const auto sums = sweep_elements<Result, kInFlight>(chain_.n, base, backwards_ ? -stride : stride, *s, reads,
                                                            writes, step, indices);
        backwards_ = !backwards_;
        if constexpr (Result::kSums > 0) add_up(s, sums, then);
    }

    template <class S, int kSums, class Then>
    __device__ __forceinline__ void add_up(S* s, const Sums<T, kSums>& sums, const Then& then) {
        sums_.add_up(sums, [&](const Sums<T, kSums>& of_all) { then(*s, of_all); });
        has_changed_scalars_ = true;
    }

    const Chain<T>& chain_;
    ChainSums<T> sums_;
    const int wanted_;
    int segment_ = 0;
    bool has_changed_scalars_ = false;
    // The direction of the next sweep, because the L2 holds the end of the vectors that were read last.
    bool backwards_ = true;
};

template <class T, class S, class Iteration>
__global__ void __launch_bounds__(ChainTuning::kBlockSize)
    sweep_segment_grid(const __grid_constant__ Chain<T> chain, S* scalars, const __grid_constant__ Iteration iteration,
                       std::int64_t k, int segment) {
    static_assert(SolverRun<ChainRun<T>, T, S>);
    wait_for_kernel_before();
    S* const s = copy_scalars(*scalars);
    ChainRun<T> run(chain, segment);
    iteration(run, s, k);
    if (run.has_changed_scalars()) store_scalars(scalars, *s);
}

// The run of an iteration on the host, which queues its products and kernels.
template <class T, class S, class Iteration>
class ChainQueue {
public:
    ChainQueue(Context<T, CudaQueue>& solve, S* scalars, const Iteration& iteration)
        : solve_(solve),
          scalars_(scalars),
          iteration_(iteration),
          chain_{solve.n,
                 solve.work.has_operator(),
                 solve.work.diagonal(),
                 solve.work.system.A->dot_parts(),
                 solve.queue.partials().arrivals + 1,
                 reinterpret_cast<Wide<T>*>(solve.queue.partials().sums)} {
        static_assert(SolverRun<ChainQueue, T, S>);
        const int ordinal = solve.work.system.device.ordinal;
        const int most = std::min<int>(properties(ordinal).multiprocessors, ChainTuning::kMaxBlocks);
        blocks_ = std::clamp<int>(static_cast<int>(blocks_for(solve.n, ChainTuning::kBlockSize)), 1, most);
        can_run_ = can_cooperate(kKernel, blocks_, ChainTuning::kBlockSize, ordinal);
    }

    bool can_run() const { return can_run_; }

    void iterate(std::int64_t k) {
        k_ = k;
        segment_ = 0;
        iteration_(*this, scalars_, k);
        end_segment();
    }

    bool has_preconditioner() const { return solve_.has_preconditioner(); }

    void multiply(const T* x, T* y) {
        end_segment();
        solve_.multiply(x, y);
    }
    template <class Then>
    void multiply_and_dot(S*, const T* from, T* to, const T* w, Wide<T>* parts, const Then&) {
        end_segment();
        if (parts == nullptr) {
            solve_.multiply(from, to);
        } else {
            solve_.work.system.A->apply_and_dot(from, to, w, parts, solve_.queue.stream());
        }
        has_sweeps_ = true;
    }

    const T* precondition(S* s, const T* from, T* to) {
        if (!solve_.has_preconditioner()) return from;
        if (!chain_.has_operator) {
            has_sweeps_ = true;
            return to;
        }
        end_segment();
        return solve_.precondition(s, from, to);
    }

    template <class... Operands>
    void sweep(const Operands&...) {
        has_sweeps_ = true;
    }
    template <class... Operands>
    void reduce(const Operands&...) {
        has_sweeps_ = true;
    }

private:
    static constexpr auto kKernel = sweep_segment_grid<T, S, Iteration>;

    void end_segment() {
        if (has_sweeps_) {
            launch_cooperative(kKernel, blocks_, ChainTuning::kBlockSize, solve_.queue.stream(), chain_, scalars_,
                               iteration_, k_, segment_);
        }
        has_sweeps_ = false;
        ++segment_;
    }

    Context<T, CudaQueue>& solve_;
    S* scalars_;
    Iteration iteration_;
    Chain<T> chain_;
    int blocks_;
    bool can_run_;
    std::int64_t k_ = 0;
    int segment_ = 0;
    bool has_sweeps_ = false;
};

// Returns false if the system cannot be iterated so. This depends on the system and the device alone, so that results
// do not depend on how often the caller looks at the solve.
template <class T, class S, class Iteration>
bool iterate_chained(Context<T, CudaQueue>& solve, S* s, int period, const Iteration& iteration) {
    if (solve.limits.scaled) return false;
    ChainQueue<T, S, Iteration> chain(solve, s, iteration);
    if (!chain.can_run()) return false;
    solve.repeat(s, period, 1, [&](std::int64_t k) { chain.iterate(k); });
    return solve.report.chained = true;
}

}  // namespace spmvgpu::gpu
