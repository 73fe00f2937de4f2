// Operations as nvcc compiles them; see gpu/run.hpp.
#pragma once

#include <type_traits>

#include "gpu/cuda/passes.cuh"
#include "gpu/run.hpp"

namespace spmvgpu::gpu {

template <class Operation>
typename Operation::Result run_on_gpu(const Operation& operation, int ordinal) {
    CudaPasses passes(ordinal);
    auto result = operation(passes);
    if constexpr (!std::is_arithmetic_v<decltype(result)>) passes.finish();  // the read of a number has waited already
    return result;
}

}  // namespace spmvgpu::gpu

// Compiles an operation, in namespace spmvgpu.
#define SPMVGPU_RUN_ON_GPU(...) template __VA_ARGS__::Result gpu::run_on_gpu<__VA_ARGS__>(const __VA_ARGS__&, int);
