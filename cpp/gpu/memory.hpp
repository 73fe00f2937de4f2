// Memory of GPUs, as core/memory.hpp needs it. All of it is done when it returns.
#pragma once

#include <cstddef>
#include <memory>

#include "core/types.hpp"

namespace spmvgpu::gpu {

std::shared_ptr<void> allocate(std::size_t bytes, int ordinal);
void copy(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes);
void set_zero(void* memory, std::size_t bytes, int ordinal);

}  // namespace spmvgpu::gpu
