// Steps on a GPU. Nothing here waits for the device but read().
#pragma once

#include <algorithm>
#include <optional>

#include "core/array.hpp"
#include "cuda/check.hpp"
#include "cuda/runtime.hpp"
#include "cuda/stream.hpp"
#include "cuda/transfer.hpp"
#include "cuda/warp.cuh"
#include "vector/step.hpp"

namespace spmvgpu::cuda {

struct SweepTuning {
    static constexpr int kBlockSize = 256;
    static constexpr int kBlocksPerProcessor = 4;  // of one wave, so that all blocks end together
    static constexpr int kInFlight = 4;            // elements per thread: of two float vectors 32 KB a multiprocessor
};

// The sums of a block go to partial_sums; the block that arrives last adds them up, always in the same order whichever
// block that is, and does the scalar work.
template <class State, class Step>
__global__ void __launch_bounds__(SweepTuning::kBlockSize, SweepTuning::kBlocksPerProcessor)
    sweep_grid_stride(index_t n, State* state, Step step, double* partial_sums, unsigned* arrivals) {
    constexpr int kBlockSize = SweepTuning::kBlockSize, kInFlight = SweepTuning::kInFlight, kSums = Step::kSums;
    const State now = *state;
    if (step.idle(now)) return;  // all threads of all blocks alike

    Sums<kSums> sums;
    const std::int64_t stride = std::int64_t(gridDim.x) * kBlockSize;
    for (std::int64_t base = std::int64_t(blockIdx.x) * kBlockSize + threadIdx.x; base < n;
         base += kInFlight * stride) {
        typename Step::Loaded loaded[kInFlight];
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) {
            if (base + i * stride < n) loaded[i] = step.load(static_cast<index_t>(base + i * stride));
        }
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) {
            if (base + i * stride < n) sums += step.apply(now, static_cast<index_t>(base + i * stride), loaded[i]);
        }
    }

    if constexpr (kSums > 0) {
        __shared__ bool last_arrival;
#pragma unroll
        for (int s = 0; s < kSums; ++s) {
            const double sum = sum_block<double, kBlockSize>(sums[s]);
            if (threadIdx.x == 0) partial_sums[s * gridDim.x + blockIdx.x] = sum;
            __syncthreads();  // before the next sum takes over the same shared memory
        }
        if (threadIdx.x == 0) {
            __threadfence();
            last_arrival = atomicAdd(arrivals, 1u) == gridDim.x - 1;
        }
        __syncthreads();
        if (!last_arrival) return;
        __threadfence();
#pragma unroll
        for (int s = 0; s < kSums; ++s) {
            double sum = 0;
            const double* const of_blocks = partial_sums + s * gridDim.x;
            for (unsigned i = threadIdx.x; i < gridDim.x; i += kBlockSize) sum += __ldcg(of_blocks + i);
            sums.value[s] = sum_block<double, kBlockSize>(sum);
            __syncthreads();
        }
        if (threadIdx.x == 0) {
            *arrivals = 0;
            step.then(*state, sums);
        }
    }
}

class CudaQueue {
public:
    explicit CudaQueue(int ordinal)
        : guard_(ordinal),
          max_blocks_(SweepTuning::kBlocksPerProcessor * properties(ordinal).multiprocessors),
          stream_(lease_stream(ordinal)),
          partial_sums_(kMaxSums * max_blocks_, Device{ordinal}),
          arrivals_(1, Device{ordinal}) {
        check(cudaMemsetAsync(arrivals_.data(), 0, arrivals_.bytes(), native(stream())), "cudaMemsetAsync");
    }

    // Work that is still queued uses memory that is about to be freed.
    ~CudaQueue() { cudaStreamSynchronize(native(stream())); }
    CudaQueue(const CudaQueue&) = delete;
    CudaQueue& operator=(const CudaQueue&) = delete;

    Stream stream() const { return stream_.get(); }

    void wait_for(Stream other) { order_after(stream(), other); }

    template <class State, class Step>
    void sweep(index_t n, State* state, const Step& step) {
        static_assert(Step::kSums <= kMaxSums);
        const unsigned blocks = std::clamp(blocks_for(n, SweepTuning::kBlockSize), 1u, max_blocks_);
        sweep_grid_stride<<<blocks, SweepTuning::kBlockSize, 0, native(stream())>>>(
            n, state, step, partial_sums_.data(), arrivals_.data());
        check_launch("sweep_grid_stride");
    }

    // Waits for all that is queued.
    template <class State>
    State read(const State* state) {
        if (!staging_) staging_ = allocate_pinned(sizeof(State));
        check(cudaMemcpyAsync(staging_.get(), state, sizeof(State), cudaMemcpyDeviceToHost, native(stream())),
              "cudaMemcpyAsync");
        check(cudaStreamSynchronize(native(stream())), "cudaStreamSynchronize");
        return *static_cast<const State*>(staging_.get());
    }

    // Iterations are queued in batches, and look() is called between batches only; so a few more are queued than are
    // needed, and their steps have to be idle. A long solve looks less often: a sixteenth of its work may be in vain.
    template <class Iterate, class Look>
    void repeat(bool look_each, Iterate&& iterate, Look&& look) {
        if (look_each) {
            do iterate();
            while (look());
            return;
        }
        constexpr int kBatch = 8;
        constexpr int kDirectBatches = 4;  // a solve that ends within them is over before a graph would pay
        const auto batch = [&] {
            for (int i = 0; i < kBatch; ++i) iterate();
        };
        std::optional<Replay> replay;
        std::int64_t batches = 0;
        do {
            const std::int64_t next = batches + 1 + batches / 16;
            for (; batches < next; ++batches) replay ? replay->launch() : batch();
            // Recorded while the device is busy with what is queued.
            if (!replay && batches >= kDirectBatches) replay.emplace(stream(), batch);
        } while (look());
    }

private:
    DeviceGuard guard_;
    unsigned max_blocks_;
    std::shared_ptr<void> stream_;
    Array<double> partial_sums_;
    Array<unsigned> arrivals_;
    std::shared_ptr<void> staging_;
};

}  // namespace spmvgpu::cuda
