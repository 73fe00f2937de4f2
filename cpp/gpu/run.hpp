// An operation runs where its arrays are. It is written once as passes over them, see core/passes/passes.hpp, and this
// is the one place that chooses between the passes of the CPU and of a GPU.
//
// An operation is an object that holds its operands, with
//     using Result = ...;
//     template <class Passes> Result operator()(Passes& passes) const;
// A .cu file compiles it for GPUs, with SPMVGPU_RUN_ON_GPU of gpu/cuda/run.cuh.
#pragma once

#include "core/passes/host_passes.hpp"
#include "core/types.hpp"

namespace spmvgpu::gpu {

template <class Operation>
typename Operation::Result run_on_gpu(const Operation& operation, int ordinal);

template <class Operation>
typename Operation::Result run(const Operation& operation, Device device) {
    if constexpr (kHasCuda) {
        if (device.is_gpu()) return run_on_gpu(operation, device.ordinal);
    }
    HostPasses passes;
    return operation(passes);
}

}  // namespace spmvgpu::gpu
