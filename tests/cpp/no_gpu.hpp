// For a program without CUDA: defines what gpu/memory.cpp calls of it. Included by one source of the program.
#pragma once

#include <stdexcept>

#include "gpu/memory.hpp"

namespace spmvgpu::gpu {
std::shared_ptr<void> allocate(std::size_t, int) { throw std::logic_error("no GPU"); }
void copy(void*, Device, const void*, Device, std::size_t) { throw std::logic_error("no GPU"); }
void set_zero(void*, std::size_t, int) { throw std::logic_error("no GPU"); }
}  // namespace spmvgpu::gpu
