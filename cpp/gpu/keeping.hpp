// The share of a matrix that stays in the L2 of a GPU from one product to the next.
#pragma once

#include <cstdint>

namespace spmvgpu::gpu {

// The cache policy of loads that keep this share in the L2 (gpu/cuda/keeping.cuh), in bits that the GPU defines.
std::uint64_t policy_to_keep(double share, int ordinal);

}  // namespace spmvgpu::gpu
