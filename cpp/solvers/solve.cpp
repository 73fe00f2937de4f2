#include "solvers/solve.hpp"

#include "solvers/methods.hpp"
#include "vector/host_queue.hpp"
#ifdef SPMVGPU_CUDA
#include "solvers/cuda.hpp"
#endif

namespace spmvgpu {

template <class T>
Report solve(Method method, const System<T>& system, const Limits& limits, SolverMemory& memory,
             [[maybe_unused]] const Stream* after, const std::function<void(const Look&)>& look) {
    const auto start = std::chrono::steady_clock::now();
    const std::size_t bytes = work_bytes<T>(method, system.n, limits);
    Report report;
#ifdef SPMVGPU_CUDA
    if (system.device.is_cuda()) {
        report = cuda::solve(method, system, limits, memory, bytes, after, look);
    } else
#endif
    {
        SolverMemory::Lease lease(memory, bytes);
        HostQueue queue(system.ranks);
        report = run_method(method, queue, system, limits, lease.data(), bytes, look);
    }
    report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return report;
}

#define INSTANTIATE(T)                                                                           \
    template Report solve(Method, const System<T>&, const Limits&, SolverMemory&, const Stream*, \
                          const std::function<void(const Look&)>&);
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)

}  // namespace spmvgpu
