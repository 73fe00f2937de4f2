// Occupancy of a kernel, as the runtime computes it from the compiled code.
#pragma once

#include "gpu/cuda/check.hpp"
#include "gpu/residency.hpp"
#include "gpu/runtime.hpp"

namespace spmvgpu::gpu {

template <class Kernel>
Residency residency(Kernel* kernel, int block_size, int ordinal) {
    const DeviceGuard guard(ordinal);
    Residency result{block_size, 0};
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&result.blocks_per_processor, kernel, block_size, 0),
          "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
    return result;
}

}  // namespace spmvgpu::gpu
