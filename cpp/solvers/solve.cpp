#include "solvers/solve.hpp"

#include <optional>

#include "solvers/engines/host_pieces.hpp"
#include "solvers/in_pieces.hpp"
#include "solvers/methods/methods.hpp"
#include "solvers/permuted_system.hpp"
#ifdef SPMVGPU_CUDA
#include "solvers/on_gpus.hpp"
#endif

namespace spmvgpu {

namespace {

template <class T>
Report solve_in_pieces(std::string_view method, const SystemInPieces<T>& system, const Limits& limits,
                       SolverMemory& memory, const LookAt& look) {
    const std::size_t count = system.halos.lanes().size();
    const Needs needs = system.needs(method, limits);
    SolverMemory::Lease lease(memory, count * aligned(needs.bytes), Device{});
    std::vector<char*> of_pieces;
    for (std::size_t k = 0; k < count; ++k) of_pieces.push_back(lease.data() + k * aligned(needs.bytes));
    HostPieces queues(static_cast<int>(count), needs.sums * sizeof(Wide<T>));
    return run_in_pieces(method, queues, system, limits, of_pieces, std::vector<Stream>(count), look);
}

// The way that suits the system.
template <class T>
Report run(std::string_view method, System<T> system, const Limits& limits, SolverMemory& memory, const Stream* after,
           const LookAt& look) {
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
        if (halos->has_gpus()) return gpu::solve_in_pieces(method, in_pieces, limits, memory, after, look);
#endif
        return solve_in_pieces(method, in_pieces, limits, memory, look);
    }
#ifdef SPMVGPU_CUDA
    if (system.device.is_gpu()) {
        const bool over_ranks = system.ranks != nullptr || system.gpus_of_ranks != nullptr;
        return over_ranks ? gpu::solve_over_ranks(method, system, limits, memory, after, look)
                          : gpu::solve_on_gpu(method, system, limits, memory, after, look);
    }
#endif
    const Needs needs = needs_of(method, system, limits);
    SolverMemory::Lease lease(memory, needs.bytes, system.device);
    // As one piece, so that solvers are compiled once for the CPU.
    HostPieces pieces(1, needs.sums * sizeof(Wide<T>), system.ranks);
    PiecesQueue queue(pieces, {{system.n, 0, 0}});
    return run_method(method, queue, system, limits, lease.data(), look);
}

}  // namespace

std::vector<std::string> method_names() {
    std::vector<std::string> names;
    Methods<double>::for_each_name([&](const char* name) { names.emplace_back(name); });
    return names;
}

template <class T>
Report solve(std::string_view method, const System<T>& system, const Limits& limits, SolverMemory& memory,
             const Stream* after, const LookAt& look) {
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

#define INSTANTIATE(T)                                                                                     \
    template Report solve(std::string_view, const System<T>&, const Limits&, SolverMemory&, const Stream*, \
                          const LookAt&);
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
