// The library's memory on GPUs. Each has a pool, which keeps idle memory for later allocations, because the driver
// takes longer over an allocation than a pass over a small matrix does. Arrays come from it by allocate() of
// memory.hpp.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>

#include "core/types.hpp"

namespace spmvgpu::gpu {

// Memory in the order of a stream: work that is queued there after this call may use it, and it is free, with its last
// owner, after the work that is queued there by then. For streams of lease_stream(), which are never destroyed. Throws
// OutOfMemory.
std::shared_ptr<void> allocate_scratch(std::size_t bytes, int ordinal, Stream stream);

std::size_t idle_bytes(int ordinal);

void share_pool(int ordinal, int other);

// Lets allocate() take memory of a device from the driver from now on, which copies it to any other GPU. Memory of a
// pool can be copied only between GPUs that can access each other.
void leave_pool(int ordinal);

// Lets a thread allocate and free in a scope while streams are captured, its own and others. CUDA refuses that during
// captures in its global mode, and in the same thread, and ends them, as queued work may depend on captured work; work
// under this guard must not. Fails only when the process ends.
class RelaxedCaptures {
public:
    RelaxedCaptures() noexcept { cudaThreadExchangeStreamCaptureMode(&mode_); }
    ~RelaxedCaptures() { cudaThreadExchangeStreamCaptureMode(&mode_); }
    RelaxedCaptures(const RelaxedCaptures&) = delete;
    RelaxedCaptures& operator=(const RelaxedCaptures&) = delete;

private:
    cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;  // mode of the thread outside of the scope; exchanged
};

}  // namespace spmvgpu::gpu
