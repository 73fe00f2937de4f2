// Memory of GPUs, as core/memory.hpp needs it. Defined in gpu/cuda/runtime.cu, or in gpu/none/none.cpp in a build
// without CUDA.
#pragma once

#include <cstddef>
#include <memory>

#include "core/types.hpp"

namespace spmvgpu::cuda {

std::shared_ptr<void> allocate(std::size_t bytes, int ordinal);
void copy(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes);

}  // namespace spmvgpu::cuda
