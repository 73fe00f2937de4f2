// The library's memory on GPUs. Each has a pool, of which idle memory is kept for the next to ask: the driver takes
// longer over an allocation than a pass over a small matrix does. Arrays come from it by allocate() of memory.hpp.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>

#include "core/types.hpp"

namespace spmvgpu::gpu {

// Memory in the order of a stream: it may be used by what is queued there after this call, and is given back, with its
// last owner, after what is queued there by then. Throws OutOfMemory.
std::shared_ptr<void> allocate_scratch(std::size_t bytes, int ordinal, Stream stream);

// What the pool of a device keeps.
std::size_t idle_bytes(int ordinal);

// Lets a device use the memory of another one's pool.
void share_pool(int ordinal, int other);

// From now on allocate() takes memory of a device from the driver, which copies it to any other GPU. Memory of a pool
// can be copied only between GPUs that read each other.
void leave_pool(int ordinal);

// Lets a thread allocate and free in a scope while streams are captured, its own and others. CUDA refuses that for
// captures of its global mode, and those of the same thread, and ends them, as work that is queued may wait for work
// that is recorded; what is done under this guard must not. Fails only when the process ends.
class RelaxedCaptures {
public:
    RelaxedCaptures() noexcept { cudaThreadExchangeStreamCaptureMode(&mode_); }
    ~RelaxedCaptures() { cudaThreadExchangeStreamCaptureMode(&mode_); }
    RelaxedCaptures(const RelaxedCaptures&) = delete;
    RelaxedCaptures& operator=(const RelaxedCaptures&) = delete;

private:
    cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;  // of the thread afterwards, in turns
};

}  // namespace spmvgpu::gpu
