// The library's memory on GPUs. Each has a pool, of which idle memory is kept for the next to ask: the driver takes
// longer over an allocation than a pass over a small matrix does. Arrays come from it by allocate() of memory.hpp.
#pragma once

#include <cstddef>
#include <memory>

#include "core/types.hpp"

namespace spmvgpu::cuda {

// Memory in the order of a stream: it may be used by what is queued there after this call, and is given back, with its
// last owner, after what is queued there by then. Throws OutOfMemory.
std::shared_ptr<void> allocate_scratch(std::size_t bytes, int ordinal, Stream stream);

// What the pool of a device keeps.
std::size_t idle_bytes(int ordinal);

// Lets a device have back what its pool keeps.
void release_idle_memory(int ordinal);

// Lets a device use the memory of another one's pool.
void share_pool(int ordinal, int other);

}  // namespace spmvgpu::cuda
