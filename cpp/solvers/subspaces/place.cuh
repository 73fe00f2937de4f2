// The places where a subspace method runs during a call: here a GPU, or that of a rank. place.hpp has the CPU.
#pragma once

#include <memory>

#include "gpu/runtime.hpp"
#include "solvers/engines/cuda_pieces.cuh"
#include "solvers/engines/pieces_queue.hpp"

namespace spmvgpu::gpu {

struct OnStream {
    explicit OnStream(Device of) : device(of), guard(of), stream(lease_stream(of)) {}
    void finish() { synchronize(stream.get(), device); }

    Device device;
    DeviceGuard guard;
    std::shared_ptr<void> stream;
};

struct OnGpu : OnStream {
    static std::size_t bytes(Device device, int sums, std::size_t of_sum, const RankSums&) {
        return CudaQueue::partial_bytes(device.ordinal, sums, of_sum);
    }

    OnGpu(Device of, void* memory, int /*sums*/, std::size_t /*of_sum*/, const RankSums&)
        : OnStream(of), queue(of.ordinal, stream.get(), memory) {}

    CudaQueue queue;
};

class OnGpuOfRank : public OnStream {
    CudaPieces pieces_;

public:
    static std::size_t bytes(Device device, int sums, std::size_t of_sum, const RankSums& ranks) {
        return CudaPieces::rank_bytes(device.ordinal, sums, of_sum, ranks.between_gpus.get());
    }

    OnGpuOfRank(Device of, void* memory, int sums, std::size_t of_sum, const RankSums& ranks)
        : OnStream(of),
          pieces_({of.ordinal, stream.get(), memory}, sums, of_sum, ranks.between_gpus.get(), ranks.function()),
          queue(pieces_) {}
    OnGpuOfRank(const OnGpuOfRank&) = delete;
    OnGpuOfRank& operator=(const OnGpuOfRank&) = delete;

    PiecesQueue<CudaPieces> queue;
};

}  // namespace spmvgpu::gpu
