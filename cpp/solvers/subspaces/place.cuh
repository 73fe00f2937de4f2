// The place where a subspace method runs during a call: here a GPU. place.hpp has the CPU.
#pragma once

#include <memory>

#include "gpu/runtime.hpp"
#include "solvers/engines/cuda_queue.cuh"

namespace spmvgpu::gpu {

struct OnGpu {
    static std::size_t partial_bytes(Device device, int products, std::size_t of_sum) {
        return CudaQueue::partial_bytes(device.ordinal, products, of_sum);
    }

    OnGpu(Device of, void* partials)
        : device(of), guard(of), stream(lease_stream(of)), queue(of.ordinal, stream.get(), partials) {}
    void finish() { synchronize(stream.get(), device); }

    Device device;
    DeviceGuard guard;
    std::shared_ptr<void> stream;
    CudaQueue queue;
};

}  // namespace spmvgpu::gpu
