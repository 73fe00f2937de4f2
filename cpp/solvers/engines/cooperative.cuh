// Launches of kernels whose blocks wait for each other.
#pragma once

#include "gpu/cuda/check.hpp"
#include "gpu/cuda/overlap.cuh"
#include "gpu/runtime.hpp"

namespace spmvgpu::gpu {

// Whether the device runs so many blocks of a kernel at the same time.
template <class Kernel>
bool can_cooperate(Kernel* kernel, int blocks, int block_size, int ordinal) {
    int cooperates = 0, per_processor = 0;
    check(cudaDeviceGetAttribute(&cooperates, cudaDevAttrCooperativeLaunch, ordinal), "cudaDeviceGetAttribute");
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_processor, kernel, block_size, 0),
          "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
    return cooperates != 0 && per_processor * properties(ordinal).multiprocessors >= blocks;
}

// Every thread of such a kernel waits for the kernel before it first.
template <class... Parameters, class... Arguments>
void launch_cooperative(void (*kernel)(Parameters...), unsigned blocks, unsigned block_size, Stream stream,
                        Arguments... arguments) {
    launch_early(kernel, {.blocks = blocks, .threads = block_size, .cooperative = true}, stream, arguments...);
}

}  // namespace spmvgpu::gpu
