// Pieces of vectors on several GPUs, each with a stream of its own. Streams wait for each other by events, and the host
// for none of them. A rank of several processes has a single piece.
#pragma once

#include <memory>
#include <vector>

#include "gpu/memory.hpp"
#include "gpu/nccl.hpp"
#include "solvers/engines/cuda_queue.cuh"
#include "solvers/engines/wait_for_stream.cuh"
#include "solvers/system/memory.hpp"
#include "solvers/system/system.hpp"

namespace spmvgpu::gpu {

// Adds up the sums of all pieces, at kept[k + piece * stride] for k < count, in the order of the pieces, and does the
// scalar work. Other devices have written them, possibly to host memory, so the loads bypass caches.
template <class W, class S, class Work>
__global__ void add_pieces(S* scalars, const W* kept, int pieces, std::size_t stride, int count, W* totals, Work work) {
    const S now = *scalars;  // it is looked at when the sums are there, too
    for (int k = threadIdx.x; k < count; k += blockDim.x) {
        W sum{};
#pragma unroll 4
        for (int piece = 0; piece < pieces; ++piece) {
            W value;
            const auto* const from = reinterpret_cast<const double*>(kept + k + piece * stride);
            for (unsigned i = 0; i < sizeof(W) / sizeof(double); ++i) {
                reinterpret_cast<double*>(&value)[i] = __ldcv(from + i);
            }
            sum += value;
        }
        if (!now.stopped) totals[k] = sum;
    }
    if (now.stopped) return;
    __syncthreads();
    work_on(scalars, now, work);
}

static __global__ void copy_sums(double* to, const double* from, std::size_t count) {
    for (std::size_t k = threadIdx.x; k < count; k += blockDim.x) to[k] = __ldcv(from + k);
}

class CudaPieces {
public:
    using Queue = CudaQueue;

    struct Place {
        int ordinal;
        Stream stream;
        void* partials;  // as for a CudaQueue
    };

    // sum_bytes is the most memory for sums of a piece at once.
    CudaPieces(const std::vector<Place>& places, std::size_t sum_bytes)
        : CudaPieces(places, aligned(sum_bytes), allocate_pinned(2 * places.size() * aligned(sum_bytes))) {}

    // Bytes at Place::partials for the only piece of a rank, with this many sums at once.
    static std::size_t rank_bytes(int ordinal, int sums, std::size_t of_sum, const NcclCommunicator* gpus) {
        const std::size_t slots = 1 + (gpus == nullptr ? 0 : gpus->ranks());
        return aligned(CudaQueue::partial_bytes(ordinal, sums, of_sum)) + slots * aligned(sums * of_sum);
    }

    // The only piece of a rank, whose sums are over all ranks: between GPUs, or through host memory, for which the host
    // waits at every sum.
    CudaPieces(const Place& place, int sums, std::size_t of_sum, const NcclCommunicator* gpus,
               const AddOverRanks* ranks)
        : CudaPieces({place}, aligned(sums * of_sum), nullptr) {
        char* const slots =
            static_cast<char*>(place.partials) + aligned(CudaQueue::partial_bytes(place.ordinal, sums, of_sum));
        kept_ = {std::shared_ptr<void>(), slots};  // it belongs to the caller
        of_ranks_ = slots + slot_bytes_;
        gpus_of_ranks_ = gpus;
        ranks_ = ranks;
    }

    Stream stream() const { return lanes_[0].queue->stream(); }

    // Calls call(queue) with the device of a piece as the current one.
    template <class Call>
    void on(int piece, Call&& call) {
        const DeviceGuard guard(lanes_[piece].ordinal);
        call(*lanes_[piece].queue);
    }

    // Calls call(queue) with the queue of a piece for work that may run while sums are added up. rejoin() ends it.
    template <class Call>
    void beside(int piece, Call&& call) {
        const Lane& lane = lanes_[piece];
        const DeviceGuard guard(lane.ordinal);
        lane.beside->starts.record(lane.queue->stream());
        lane.beside->starts.hold_back(lane.beside->stream.get());
        call(lane.beside->queue);
    }
    void rejoin() {
        for (const Lane& lane : lanes_) {
            lane.beside->ends.record(lane.beside->stream.get());
            lane.beside->ends.hold_back(lane.queue->stream());
        }
    }

    // Ranks wait for every sum anyway, and must decide alike.
    template <class S>
    bool knows_idle(const S* scalars) {
        return ranks_ != nullptr && lanes_[0].queue->read_scalars(scalars).stopped != 0;
    }

    void synchronize() {
        for (const Lane& lane : lanes_) gpu::synchronize(lane.queue->stream(), lane.ordinal);
    }

    // Repeats as CudaQueue does. The host looks at the first stream, which is then ordered after the others. A graph of
    // the work on all streams begins and ends on that one and is launched there; in the end the others are ordered
    // after it.
    template <class Iterate, class Look>
    void repeat(const Pace& pace, Iterate&& iterate, Look&& look) {
        const auto look_at_all = [&] {
            first_after_others();
            return look();
        };
        const auto record = [&](const auto& batch) {
            const int turn = turn_;
            others_after_first();
            batch();
            first_after_others();
            if (turn_ != turn) keep_sums_in(turn);
        };
        on(0, [&](CudaQueue& queue) { queue.repeat(pace, iterate, look_at_all, record); });
        others_after_first();
    }

    // The place for a piece's sums: page-locked memory, which all devices can access. Two places alternate, which is
    // enough: a device reaches the sums after the next ones only when all others have added up these.
    template <class W>
    W* kept(int piece) {
        return reinterpret_cast<W*>(static_cast<char*>(kept_.get()) + (turn_ * lanes_.size() + piece) * slot_bytes_);
    }

    // The scalar work of each piece with the sums of all of them; scalars_of(k) are the scalars of the k-th.
    template <class T, class ScalarsOf, class Then>
    void add_sums(int count, ScalarsOf&& scalars_of, Then then) {
        add<Wide<T>>(count, scalars_of, [&](int piece, const auto& launch) {
            // The totals are behind the counters, where no kernel leaves partial sums any more.
            auto* const totals = reinterpret_cast<Wide<T>*>(lanes_[piece].queue->partials().sums);
            launch(totals, UseSums<T, Then>{{totals}, then});
        });
    }

    // add_sums() for products with a basis, all of which each piece gets.
    template <class ScalarsOf, class ResultsOf, class Then>
    void add_products(int count, ScalarsOf&& scalars_of, ResultsOf&& results_of, Then then) {
        using W = std::remove_pointer_t<decltype(results_of(0))>;
        add<W>(count, scalars_of, [&](int piece, const auto& launch) { launch(results_of(piece), then); });
    }

private:
    CudaPieces(const std::vector<Place>& places, std::size_t slot_bytes, std::shared_ptr<void> kept)
        : slot_bytes_(slot_bytes), kept_(std::move(kept)) {
        for (const Place& place : places) {
            const DeviceGuard guard(place.ordinal);
            auto queue = std::make_unique<CudaQueue>(place.ordinal, place.stream, place.partials);
            auto beside = std::make_unique<Beside>(*queue, place.ordinal);
            lanes_.push_back({place.ordinal, std::move(queue), std::move(beside), {}});
        }
    }

    struct Beside {
        std::shared_ptr<void> stream;
        WaitForStream wait;
        CudaQueue queue;
        Event starts, ends;

        Beside(const CudaQueue& main, int ordinal)
            : stream(lease_stream(ordinal)), wait(stream.get()), queue(main, stream.get()) {}
    };
    struct Lane {
        int ordinal;
        std::unique_ptr<CudaQueue> queue;
        std::unique_ptr<Beside> beside;
        Event kept;  // its sums are written
    };

    void others_after_first() {
        lanes_[0].kept.record(lanes_[0].queue->stream());
        for (std::size_t k = 1; k < lanes_.size(); ++k) lanes_[0].kept.hold_back(lanes_[k].queue->stream());
    }
    void first_after_others() {
        for (std::size_t k = 1; k < lanes_.size(); ++k) {
            lanes_[k].kept.record(lanes_[k].queue->stream());
            lanes_[k].kept.hold_back(lanes_[0].queue->stream());
        }
    }

    // Moves the kept sums of all pieces, of which some may be postponed, to the places of a turn. No piece uses those.
    void keep_sums_in(int turn) {
        const std::size_t bytes = lanes_.size() * slot_bytes_;
        auto* const places = static_cast<char*>(kept_.get());
        const DeviceGuard guard(lanes_[0].ordinal);
        copy_sums<<<1, SweepTuning::kBlockSize, 0, native(stream())>>>(
            reinterpret_cast<double*>(places + turn * bytes), reinterpret_cast<const double*>(places + turn_ * bytes),
            bytes / sizeof(double));
        check_launch("copy_sums");
        turn_ = turn;
    }

    template <class W, class ScalarsOf, class Call>
    void add(int count, ScalarsOf&& scalars_of, Call&& call) {
        CudaQueue& first = *lanes_[0].queue;
        if (gpus_of_ranks_ != nullptr) {
            auto* const all = static_cast<W*>(of_ranks_);
            gpus_of_ranks_->all_gather(kept<W>(0), all, count * sizeof(W), first.stream());
            return add_up(0, scalars_of, call, all, gpus_of_ranks_->ranks(), count, count);
        }
        if (ranks_ != nullptr) {
            if (knows_idle(scalars_of(0))) return;
            std::vector<W> sums(count);
            first.download(sums.data(), kept<W>(0), count * sizeof(W));
            (*ranks_)(reinterpret_cast<double*>(sums.data()), static_cast<int>(count * sizeof(W) / sizeof(double)));
            first.upload(kept<W>(0), sums.data(), count * sizeof(W));
            return add_up(0, scalars_of, call, kept<W>(0), 1, count, count);
        }
        for (Lane& lane : lanes_) lane.kept.record(lane.queue->stream());
        for (int piece = 0; piece < static_cast<int>(lanes_.size()); ++piece) {
            Lane& lane = lanes_[piece];
            const Stream stream = lane.queue->stream();
            const DeviceGuard guard(lane.ordinal);
            for (const Lane& other : lanes_) {
                if (&other != &lane) other.kept.hold_back(stream);
            }
            add_up(piece, scalars_of, call, kept<W>(0), static_cast<int>(lanes_.size()), slot_bytes_ / sizeof(W),
                   count);
        }
        turn_ = 1 - turn_;
    }

    template <class W, class ScalarsOf, class Call>
    void add_up(int piece, ScalarsOf&& scalars_of, Call&& call, const W* kept, int pieces, std::size_t stride,
                int count) {
        const Stream stream = lanes_[piece].queue->stream();
        const unsigned threads = count <= kWarp ? kWarp : SweepTuning::kBlockSize;
        call(piece, [&](W* totals, auto work) {
            add_pieces<<<1, threads, 0, native(stream)>>>(scalars_of(piece), kept, pieces, stride, count, totals, work);
            check_launch("add_pieces");
        });
    }

    std::size_t slot_bytes_;
    std::shared_ptr<void> kept_;
    void* of_ranks_ = nullptr;
    const NcclCommunicator* gpus_of_ranks_ = nullptr;
    const AddOverRanks* ranks_ = nullptr;
    std::vector<Lane> lanes_;
    int turn_ = 0;
};

}  // namespace spmvgpu::gpu
