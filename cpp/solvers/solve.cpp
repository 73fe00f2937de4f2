#include "solvers/solve.hpp"

#include <optional>

#include "solvers/engines/host_pieces.hpp"
#include "solvers/engines/pieces.hpp"
#include "solvers/permuted_system.hpp"
#ifdef SPMVGPU_CUDA
#include "solvers/engines/cuda.hpp"
#endif

namespace spmvgpu {

namespace {

template <class T>
Report solve_in_pieces(const SystemInPieces<T>& system, Method method, const Limits& limits, SolverMemory& memory,
                       const std::function<void(const Look&)>& look) {
    const std::size_t count = system.halos.lanes().size();
    const std::size_t bytes = system.bytes(method, limits);
    SolverMemory::Lease lease(memory, count * bytes, Device{});
    std::vector<char*> of_pieces;
    for (std::size_t k = 0; k < count; ++k) of_pieces.push_back(lease.data() + k * bytes);
    HostPieces queues(static_cast<int>(count), sum_bytes<T>(limits));
    return run_in_pieces(queues, system, of_pieces, std::vector<Stream>(count), method, limits, look);
}

// The way that suits the system.
template <class T>
Report run(Method method, System<T> system, const Limits& limits, SolverMemory& memory, const Stream* after,
           const std::function<void(const Look&)>& look) {
    if (const PartedMatrix<T>* const matrix = PermutedSystem<T>::matrix_of(system, limits)) {
        PermutedSystem<T> permuted(system, *matrix, memory, after);
        const Report report = run(method, permuted.inside(), limits, memory, after, look);
        permuted.deliver();
        return report;
    }
    std::optional<MatrixMap<T>> all_rows;
    if (const auto matrix = SystemInPieces<T>::undivided(system)) system.A = &all_rows.emplace(matrix);
    if (const Halos<T>* const halos = SystemInPieces<T>::divides(system)) {
        const SystemInPieces<T> in_pieces(system, *halos);
#ifdef SPMVGPU_CUDA
        if (halos->has_gpus()) return cuda::solve_in_pieces(in_pieces, method, limits, memory, after, look);
#endif
        return solve_in_pieces(in_pieces, method, limits, memory, look);
    }
    const std::size_t bytes = work_bytes<T>(method, system.n, limits);
#ifdef SPMVGPU_CUDA
    if (system.gpus_of_ranks != nullptr) {
        return cuda::solve_over_ranks(system, *system.gpus_of_ranks, method, limits, memory, bytes, after, look);
    }
    if (system.device.is_cuda()) return cuda::solve(method, system, limits, memory, bytes, after, look);
#endif
    SolverMemory::Lease lease(memory, bytes, system.device);
    // As one piece, so that solvers are compiled once for the CPU.
    HostPieces pieces(1, sum_bytes<T>(limits), system.ranks);
    PiecesQueue queue(pieces, {{system.n, 0, 0}});
    return run_method(method, queue, system, limits, lease.data(), bytes, look);
}

}  // namespace

template <class T>
Report solve(Method method, const System<T>& system, const Limits& limits, SolverMemory& memory, const Stream* after,
             const std::function<void(const Look&)>& look) {
    const auto start = std::chrono::steady_clock::now();
    Report report = run(method, system, limits, memory, after, look);
    if (report.status == Status::kOutOfRange) {
        Limits scaled = limits;
        scaled.scaled = true;
        scaled.cooperative = false;  // kernels that multiply by themselves know nothing of scales
        report = run(method, system, scaled, memory, after, look);
    }
    report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return report;
}

#define INSTANTIATE(T)                                                                           \
    template Report solve(Method, const System<T>&, const Limits&, SolverMemory&, const Stream*, \
                          const std::function<void(const Look&)>&);
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
