// Allocation and copies on any device. Defined in gpu/memory.cpp, since this folder knows nothing of GPUs.
#pragma once

#include <cstddef>
#include <memory>

#include "core/types.hpp"

namespace spmvgpu {

// Uninitialised memory, 64-byte aligned or better, freed with its last owner. Throws OutOfMemory.
std::shared_ptr<void> allocate(std::size_t bytes, Device device);

// A copy between any two devices that is complete when the call returns.
void copy_bytes(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes);

void set_zero(void* memory, Device device, std::size_t bytes);

// Host memory that can still be had, in bytes.
std::size_t free_host_memory();

}  // namespace spmvgpu
