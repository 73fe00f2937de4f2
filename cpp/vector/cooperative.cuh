// Launches of kernels whose blocks wait for each other.
#pragma once

#include "cuda/check.hpp"
#include "cuda/runtime.hpp"

namespace spmvgpu::cuda {

// Whether the device runs so many blocks of a kernel at the same time.
template <class Kernel>
bool can_cooperate(Kernel* kernel, int blocks, int block_size, int ordinal) {
    int cooperates = 0, per_processor = 0;
    check(cudaDeviceGetAttribute(&cooperates, cudaDevAttrCooperativeLaunch, ordinal), "cudaDeviceGetAttribute");
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_processor, kernel, block_size, 0),
          "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
    return cooperates != 0 && per_processor * properties(ordinal).multiprocessors >= blocks;
}

template <class Kernel>
void launch_cooperative(Kernel* kernel, int blocks, int block_size, void** arguments, Stream stream) {
    check(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(kernel), dim3(blocks), dim3(block_size), arguments,
                                      0, native(stream)),
          "cudaLaunchCooperativeKernel");
}

}  // namespace spmvgpu::cuda
