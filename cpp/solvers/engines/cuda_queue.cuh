// Sweeps on a GPU. NoWork here waits for the device but read_scalars() and download().
#pragma once

#include <algorithm>
#include <cstring>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/array.hpp"
#include "gpu/cuda/check.hpp"
#include "gpu/runtime.hpp"
#include "gpu/stream.hpp"
#include "gpu/transfer.hpp"
#include "solvers/engines/cuda_sweeps.cuh"
#include "solvers/engines/engine.hpp"

namespace spmvgpu::gpu {

struct CudaShortcuts;  // cuda_shortcuts.cuh

class CudaQueue {
public:
    static constexpr bool kIsGpu = true;
    static constexpr bool kIsInPieces = false;
    using Shortcuts = CudaShortcuts;

    // Bytes of `partials` on a device, for up to this many products with the vectors of a basis at once.
    static std::size_t partial_bytes(int ordinal, int products, std::size_t of_sum) {
        return 256 + max_blocks(ordinal) * std::max(products, kMaxSums) * of_sum;
    }

    // Work goes to the stream, whose device must be current in every call. `partials` is memory of partial_bytes();
    // null if nothing is summed.
    CudaQueue(int ordinal, Stream stream, void* partials)
        : max_blocks_(max_blocks(ordinal)),
          stream_(stream),
          partials_{partials == nullptr ? nullptr : reinterpret_cast<double*>(static_cast<char*>(partials) + 256),
                    static_cast<unsigned*>(partials)} {
        if (partials != nullptr) check(cudaMemsetAsync(partials, 0, 256, native(stream)), "cudaMemsetAsync");
    }

    // A queue beside another one, for sweeps without sums that leave half of the device to the other's.
    CudaQueue(const CudaQueue& other, Stream stream)
        : max_blocks_(other.max_blocks_ / 2), stream_(stream), partials_{nullptr, other.partials_.arrivals + 1} {}

    Stream stream() const { return stream_; }
    Partials partials() const { return partials_; }

    template <class S, class T, int kReads, unsigned kMissing, int kWrites, class Step, class Then = NoWork>
    void sweep(S* scalars, index_t n, Reads<T, kReads, kMissing> reads, Writes<T, kWrites> writes, Step step,
               Then then = {}) {
        sweep_grid_stride<<<blocks(n), SweepTuning::kBlockSize, 0, native(stream())>>>(n, scalars, reads, writes, step,
                                                                                       then, partials_);
        check_launch("sweep_grid_stride");
    }
    template <class T, int kReads, unsigned kMissing, int kWrites, class Step>
    void each(index_t n, Reads<T, kReads, kMissing> reads, Writes<T, kWrites> writes, Step step) {
        each_grid_stride<<<blocks(n), SweepTuning::kBlockSize, 0, native(stream())>>>(n, reads, writes, step);
        check_launch("each_grid_stride");
    }

    // The scalar work with x.y and y.Wy of a product, which has left pairs of parts for some rows.
    template <class S, class T, class Then>
    void add_dots(S* scalars, const DotsLeft& left, const Wide<T>* parts, const T* x, const T* y, const T* w,
                  Then then) {
        index_t items = left.pairs;
        for (const auto& rows : left.missing) items = std::max(items, rows.end - rows.begin);
        add_dots_grid_stride<<<blocks(items), SweepTuning::kBlockSize, 0, native(stream())>>>(scalars, left, parts, x,
                                                                                              y, w, then, partials_);
        check_launch("add_dots_grid_stride");
    }

    template <class S, class T, class Then>
    void dots(S* scalars, index_t n, Basis<T> basis, int count, const T* w, Wide<T>* results, Then then) {
        dots_grid_stride<<<blocks(n), SweepTuning::kBlockSize, 0, native(stream())>>>(n, scalars, basis, count, w,
                                                                                      results, then, partials_);
        check_launch("dots_grid_stride");
    }

    template <class S, class T, class Count, class Then>
    void combine(S* scalars, index_t n, Basis<T> basis, Count count, const Wide<T>* factors, double sign, T* target,
                 Then then) {
        combine_grid_stride<<<blocks(n), SweepTuning::kBlockSize, 0, native(stream())>>>(
            n, scalars, basis, count, factors, sign, target, then, partials_);
        check_launch("combine_grid_stride");
    }

    template <class S, class Work>
    void compute(S* scalars, Work work) {
        compute_one_thread<<<1, 1, 0, native(stream())>>>(scalars, work);
        check_launch("compute_one_thread");
    }

    template <class S>
    bool knows_idle(const S*) const {
        return false;  // the answer would need a wait
    }

    void zero(void* memory, std::size_t bytes) {
        check(cudaMemsetAsync(memory, 0, bytes, native(stream())), "cudaMemsetAsync");
    }

    template <class S>
    void put_scalars(S* to, const S& value) {
        upload(to, &value, sizeof(S));
    }

    // Waits for all that is queued.
    template <class S>
    S read_scalars(const S* from) {
        S value;
        download(&value, from, sizeof(S));
        return value;
    }

    int columns() const { return 1; }
    template <class S>
    std::vector<S> read_columns(const S* from) {
        return {read_scalars(from)};
    }
    template <class S>
    void put_columns(S* to, const std::vector<S>& values) {
        put_scalars(to, values[0]);
    }

    void upload(void* to, const void* from, std::size_t bytes) {
        void* const staging = pinned(bytes);
        std::memcpy(staging, from, bytes);
        check(cudaMemcpyAsync(to, staging, bytes, cudaMemcpyHostToDevice, native(stream())), "cudaMemcpyAsync");
        check(cudaStreamSynchronize(native(stream())), "cudaStreamSynchronize");
    }

    void download(void* to, const void* from, std::size_t bytes) {
        void* const staging = pinned(bytes);
        check(cudaMemcpyAsync(staging, from, bytes, cudaMemcpyDeviceToHost, native(stream())), "cudaMemcpyAsync");
        check(cudaStreamSynchronize(native(stream())), "cudaStreamSynchronize");
        std::memcpy(to, staging, bytes);
    }

    // Iterations are queued in batches, and look() is called between batches only, so some more are queued than are
    // needed, and their sweeps are idle. A long solve looks less often: a sixteenth of its work may be in vain. The
    // work that record(batch) queues is recorded as a graph.
    template <class Iterate, class Look, class Record>
    void repeat(const Pace& pace, Iterate&& iterate, Look&& look, Record&& record) {
        std::int64_t k = 0;
        if (pace.each) {
            do iterate(k++);
            while (look());
            return;
        }
        const auto whole = [&](int iterations) { return (iterations + pace.period - 1) / pace.period * pace.period; };
        const int size = whole(pace.every > 0 ? std::min(pace.every, pace.most) : std::min(pace.first, pace.most));
        const auto batch = [&] {
            for (int i = 0; i < size; ++i) iterate(k + i);
        };
        std::optional<Replay> replay;
        std::int64_t batches = 0;
        do {
            const std::int64_t more = std::min<std::int64_t>(batches / 16, std::max(0, pace.most / size - 1));
            const std::int64_t next = batches + 1 + (pace.every > 0 ? 0 : more);
            for (; batches < next; ++batches) {
                replay ? replay->launch() : batch();
                k += size;
            }
            // Recorded while the device is busy with queued work.
            if (!replay && pace.recordable && k >= pace.direct) replay.emplace(stream(), [&] { record(batch); });
        } while (look());
    }
    template <class Iterate, class Look>
    void repeat(const Pace& pace, Iterate&& iterate, Look&& look) {
        repeat(pace, iterate, look, [](const auto& batch) { batch(); });
    }

protected:
    static std::size_t max_blocks(int ordinal) {
        return SweepTuning::kBlocksPerProcessor * properties(ordinal).multiprocessors;
    }
    unsigned blocks(index_t n) const {
        return std::clamp<unsigned>(blocks_for(n, SweepTuning::kBlockSize), 1u, static_cast<unsigned>(max_blocks_));
    }
    void* pinned(std::size_t bytes) {
        if (bytes > pinned_bytes_) {
            pinned_ = allocate_pinned(bytes);
            pinned_bytes_ = bytes;
        }
        return pinned_.get();
    }

    std::size_t max_blocks_;
    Stream stream_;
    Partials partials_;
    std::shared_ptr<void> pinned_;
    std::size_t pinned_bytes_ = 0;
};

static_assert(Engine<CudaQueue>);

}  // namespace spmvgpu::gpu
