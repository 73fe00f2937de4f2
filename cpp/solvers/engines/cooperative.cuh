#pragma once

#include "gpu/cuda/check.hpp"
#include "gpu/cuda/overlap.cuh"
#include "gpu/runtime.hpp"

namespace spmvgpu::gpu {

// Returns true if the device runs all these blocks of a kernel at the same time.
template <class Kernel>
bool can_cooperate(Kernel* kernel, int blocks, int block_size, int ordinal) {
    int cooperates = 0, per_processor = 0;
    check(cudaDeviceGetAttribute(&cooperates, cudaDevAttrCooperativeLaunch, ordinal), "cudaDeviceGetAttribute");
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_processor, kernel, block_size, 0),
          "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
    return cooperates != 0 && per_processor * properties(ordinal).multiprocessors >= blocks;
}

// The kernel must first wait for the kernel before it, in every thread.
template <class... Parameters, class... Arguments>
void launch_cooperative(void (*kernel)(Parameters...), unsigned blocks, unsigned block_size, Stream stream,
                        Arguments... arguments) {
    launch_early(kernel, {.blocks = blocks, .threads = block_size, .cooperative = true}, stream, arguments...);
}

}  // namespace spmvgpu::gpu
