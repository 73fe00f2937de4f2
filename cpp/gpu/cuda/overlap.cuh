// Programmatic dependent launch: a kernel starts while the one before it on its stream ends. It reads its matrix, which
// no earlier kernel writes, and waits before it reads x or writes anything, so its launch and its first loads cost next
// to nothing between products. On GPUs before compute capability 9.0 kernels follow each other as usual.
//
// Every block must wait before it ends: otherwise a kernel could end before the one before it, and the next one start
// too early.
#pragma once

#include <cuda_runtime.h>

#include "gpu/cuda/check.hpp"
#include "gpu/runtime.hpp"

namespace spmvgpu::gpu {

// Lets the blocks of the next kernel start, if there is room and it was launched early. They start once all blocks of
// this kernel have called this or ended. If blocks are short, several kernels may wait in a row. If they are long, and
// all of them fit on the processors, they must not: the blocks of a kernel that waited are distributed unevenly, where
// earlier ones left room (elasticity, 59 k rows, in stencil: 15 us in place of 9). A kernel with such blocks does not
// call this, and lets the next one start when it has waited itself.
__device__ __forceinline__ void let_next_kernel_start() {
#if __CUDA_ARCH__ >= 900
    cudaTriggerProgrammaticLaunchCompletion();
#endif
}

// In a kernel that launch_early launched: returns when all writes of the kernel before it can be read, and lets the
// next one start. Every thread that reads or writes data of the kernel before must call it.
__device__ __forceinline__ void wait_for_kernel_before() {
#if __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
    let_next_kernel_start();
#endif
}

struct Grid {
    unsigned blocks, threads;  // per grid and per block
    int shared_bytes = 0;      // dynamic shared memory
    bool cooperative = false;  // true if the blocks wait for each other, and so must all run at the same time
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
