// Every CUDA call goes through check(); so does every launch, with cudaGetLastError().
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "core/errors.hpp"
#include "core/types.hpp"

namespace spmvgpu::gpu {

inline std::string failure(cudaError_t status, const char* call) {
    return std::string(call) + " failed: " + cudaGetErrorName(status) + " (" + std::to_string(int(status)) + "), " +
           cudaGetErrorString(status);
}

inline void check(cudaError_t status, const char* call) {
    if (status == cudaSuccess) return;
    cudaGetLastError();  // clears an error that is not sticky, so that the next call does not report it again
    throw CudaError(failure(status, call));
}

inline void check_launch(const char* kernel) { check(cudaGetLastError(), kernel); }

// Lets launches of a kernel ask for this much shared memory, because a device gives no more than 48 KB by default. The
// setting lasts; it takes about a microsecond.
template <class Kernel>
void allow_shared_bytes(Kernel* kernel, int bytes) {
    constexpr int kUnasked = 48 << 10;
    if (bytes <= kUnasked) return;
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), "cudaFuncSetAttribute");
}

inline cudaStream_t native(Stream stream) { return static_cast<cudaStream_t>(stream); }

}  // namespace spmvgpu::gpu
