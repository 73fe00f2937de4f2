// Memory of GPUs, as the ground floor needs it. Declared here and defined by the CUDA backend (cuda/runtime.cu, or
// cuda/unavailable.cpp in a build without CUDA), so that this folder includes nothing from above.
#pragma once

#include <cstddef>
#include <memory>

#include "core/types.hpp"

namespace spmvgpu::cuda {

std::shared_ptr<void> allocate(std::size_t bytes, int ordinal);
void copy(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes);

}  // namespace spmvgpu::cuda
