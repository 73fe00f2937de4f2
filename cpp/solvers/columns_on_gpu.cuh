// The solvers of several right-hand sides on a GPU, for files that compile them for some types each, side by side.
#pragma once

#include "solvers/engines/batch.cuh"
#include "solvers/engines/cuda_columns.cuh"
#include "solvers/engines/wait_for_stream.cuh"
#include "solvers/methods/methods.hpp"
#include "solvers/on_gpus.hpp"

namespace spmvgpu::gpu {

template <class T>
Reports solve_columns(std::string_view method, const System<T>& system, const Limits& limits, SolverMemory& memory,
                      const Stream* after, const LookAt& look) {
    const int ordinal = system.device.ordinal;
    const DeviceGuard guard(ordinal);
    const Needs needs = needs_of(method, system, limits);
    const std::size_t partials = aligned(CudaQueue::partial_bytes(ordinal, needs.sums, sizeof(Wide<T>)));
    const std::size_t of_columns = system.columns * (partials + needs.of_column);
    SolverMemory::Lease lease(memory, of_columns + needs.bytes, system.device);
    const std::shared_ptr<void> stream = lease_stream(ordinal);
    const WaitForStream wait(stream.get());
    if (after) order_after(stream.get(), *after);
    CudaColumns queue(ordinal, stream.get(), lease.data(), {system.columns, system.batch, needs.of_column, partials});
    return run_method(method, queue, system, limits, lease.data() + system.columns * partials, look);
}

#define SPMVGPU_SOLVE_COLUMNS(T)                                                                                    \
    template Reports solve_columns(std::string_view, const System<T>&, const Limits&, SolverMemory&, const Stream*, \
                                   const LookAt&);

}  // namespace spmvgpu::gpu
