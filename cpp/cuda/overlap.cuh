// Programmatic dependent launch: the second of two kernels of one product starts while the first one ends, which hides
// most of its launch. On GPUs before compute capability 9.0 the two follow each other as ever.
#pragma once

#include <cuda_runtime.h>

#include "cuda/check.hpp"

namespace spmvgpu::cuda {

// In the first kernel: from here on the blocks of the next one may be started where there is room.
__device__ __forceinline__ void let_next_kernel_start() {
#if __CUDA_ARCH__ >= 900
    cudaTriggerProgrammaticLaunchCompletion();
#endif
}

// In a kernel that launch_early launched: returns when all that the kernel before it wrote can be read. To be called by
// every thread, before anything is read or written that the kernel before has to do with.
__device__ __forceinline__ void wait_for_kernel_before() {
#if __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
#endif
}

template <class... Parameters, class... Arguments>
void launch_early(void (*kernel)(Parameters...), unsigned blocks, unsigned threads, Stream stream,
                  Arguments... arguments) {
    int ordinal = 0, major = 0;
    check(cudaGetDevice(&ordinal), "cudaGetDevice");
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ordinal), "cudaDeviceGetAttribute");
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks;
    config.blockDim = threads;
    config.stream = native(stream);
    config.attrs = &early;
    config.numAttrs = major >= 9 ? 1 : 0;
    check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), "cudaLaunchKernelEx");
}

}  // namespace spmvgpu::cuda
