// The solvers with vectors on a GPU, for files that compile them for some types each, side by side.
#pragma once

#include "solvers/engines/chained.cuh"
#include "solvers/engines/cuda.hpp"
#include "solvers/engines/cuda_queue.cuh"
#include "solvers/engines/orthogonalise.cuh"
#include "solvers/engines/resident.cuh"
#include "solvers/engines/wait_for_stream.cuh"
#include "solvers/methods/methods.hpp"
#include "solvers/preconditioners/cycle_steps.hpp"

namespace spmvgpu::cuda {

template <class T>
Report solve(Method method, const System<T>& system, const Limits& limits, SolverMemory& memory, std::size_t bytes,
             const Stream* after, const std::function<void(const Look&)>& look) {
    const int ordinal = system.device.ordinal;
    const DeviceGuard guard(ordinal);
    const std::size_t partials = std::max({CudaQueue::partial_bytes(ordinal, limits.restart + 2, sizeof(Wide<T>)),
                                           ResidentSystem<T>::partial_bytes(), Chain<T>::partial_bytes()});
    const std::size_t aligned = (partials + 255) / 256 * 256;
    SolverMemory::Lease lease(memory, aligned + bytes, system.device);
    const std::shared_ptr<void> stream = lease_stream(ordinal);
    const WaitForStream wait(stream.get());
    if (after) order_after(stream.get(), *after);
    CudaQueue queue(ordinal, stream.get(), lease.data(), system.ranks);
    return run_method(method, queue, system, limits, lease.data() + aligned, bytes, look);
}

template <class T>
void run_cycle(const CycleMap<T>& cycle, int ordinal, const T* x, T* y, Stream stream) {
    const DeviceGuard guard(ordinal);
    CudaQueue queue(ordinal, stream, nullptr);
    spmvgpu::run_cycle(queue, cycle, 0, x, y);
}

#define SPMVGPU_SOLVERS_OF(T)                                                                                 \
    template Report solve(Method, const System<T>&, const Limits&, SolverMemory&, std::size_t, const Stream*, \
                          const std::function<void(const Look&)>&);                                           \
    template void run_cycle(const CycleMap<T>&, int, const T*, T*, Stream);

}  // namespace spmvgpu::cuda
