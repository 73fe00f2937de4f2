// How much of a matrix stays in the L2 of a GPU from one product to the next.
#pragma once

#include <cstdint>

namespace spmvgpu::gpu {

// What loads that keep this share of what they read in the L2 are marked with (gpu/cuda/keeping.cuh). The GPU says that
// in bits of its own.
std::uint64_t policy_to_keep(double share, int ordinal);

}  // namespace spmvgpu::gpu
