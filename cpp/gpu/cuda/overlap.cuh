// Programmatic dependent launch: a kernel starts while the one before it on its stream ends. It reads its matrix, which
// no kernel before it writes, and waits before it reads x or writes anything; so its launch and its first loads cost
// next to nothing between products. On GPUs before compute capability 9.0 kernels follow each other as ever.
//
// A block that ends has waited: else a kernel could be over before the one before it, and the next one go ahead.
#pragma once

#include <cuda_runtime.h>

#include "gpu/cuda/check.hpp"
#include "gpu/runtime.hpp"

namespace spmvgpu::gpu {

// From here on the blocks of the next kernel may be started, where there is room and if it was launched early. Until
// all blocks of a kernel have said so, or have ended, none is. Where blocks are short, several kernels may wait in a
// row. Where they are long, and all of them fit the processors, they must not, for the blocks of one that waited lie
// unevenly, where those before it left room (elasticity, 59 k rows, in stencil: 15 us in place of 9): a kernel of such
// blocks says nothing, and lets the next one start when it has waited itself.
__device__ __forceinline__ void let_next_kernel_start() {
#if __CUDA_ARCH__ >= 900
    cudaTriggerProgrammaticLaunchCompletion();
#endif
}

// In a kernel that launch_early launched: returns when all that the kernel before it wrote can be read, at once if that
// was so before, and lets the next one start. To be called by every thread that reads or writes what the kernel before
// has to do with.
__device__ __forceinline__ void wait_for_kernel_before() {
#if __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
    let_next_kernel_start();
#endif
}

struct Grid {
    unsigned blocks, threads;  // of each block
    int shared_bytes = 0;      // asked for beyond those that the kernel always has
    bool cooperative = false;  // whether the blocks wait for each other, and so all run at the same time
};

template <class... Parameters, class... Arguments>
void launch_early(void (*kernel)(Parameters...), const Grid& grid, Stream stream, Arguments... arguments) {
    int ordinal = 0;
    check(cudaGetDevice(&ordinal), "cudaGetDevice");
    cudaLaunchAttribute attributes[2] = {};
    cudaLaunchConfig_t config = {};
    config.gridDim = grid.blocks;
    config.blockDim = grid.threads;
    config.dynamicSmemBytes = grid.shared_bytes;
    config.stream = native(stream);
    config.attrs = attributes;
    if (properties(ordinal).major >= 9) {
        cudaLaunchAttribute& early = attributes[config.numAttrs++];
        early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        early.val.programmaticStreamSerializationAllowed = 1;
    }
    if (grid.cooperative) {
        cudaLaunchAttribute& together = attributes[config.numAttrs++];
        together.id = cudaLaunchAttributeCooperative;
        together.val.cooperative = 1;
    }
    check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), "cudaLaunchKernelEx");
}

}  // namespace spmvgpu::gpu
