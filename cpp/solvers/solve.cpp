#include "solvers/solve.hpp"

#include <algorithm>
#include <optional>

#include "core/array.hpp"
#include "solvers/batch_on_host.hpp"
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
Reports solve_in_pieces(std::string_view method, const SystemInPieces<T>& system, const Limits& limits,
                        SolverMemory& memory, const LookAt& look) {
    const std::size_t count = system.halos.lanes().size();
    const Needs needs = system.needs(method, limits);
    SolverMemory::Lease lease(memory, count * aligned(needs.bytes), Device{});
    std::vector<char*> of_pieces;
    for (std::size_t k = 0; k < count; ++k) of_pieces.push_back(lease.data() + k * aligned(needs.bytes));
    HostPieces queues(static_cast<int>(count), needs.sums * sizeof(Wide<T>));
    return run_in_pieces(method, queues, system, limits, of_pieces, std::vector<Stream>(count), look);
}

template <class T>
Reports solve_columns(std::string_view method, const System<T>& system, const Limits& limits, SolverMemory& memory,
                      [[maybe_unused]] const Stream* after, const LookAt& look) {
    System<T> at_once = system;
    const index_t rows = system.n * system.batch, products = system.columns / system.batch;
    const ColumnsMap<T> A(*system.A, rows, products);
    at_once.A = &A;
    std::optional<ColumnsMap<T>> M;
    if (system.M != nullptr) at_once.M = &M.emplace(*system.M, rows, products);
#ifdef SPMVGPU_CUDA
    if (system.device.is_gpu()) return gpu::solve_columns(method, at_once, limits, memory, after, look);
#endif
    if (const auto csr = small_systems(at_once, limits)) return solve_each_system(method, system, *csr, limits, look);
    const Needs needs = needs_of(method, at_once, limits);
    SolverMemory::Lease lease(memory, needs.bytes + system.columns * needs.of_column, system.device);
    std::vector<SymmetricPiece> columns;
    for (std::ptrdiff_t j = 0; j < system.columns; ++j) {
        const auto to_vector = [&](std::ptrdiff_t number) { return number * system.n * std::ptrdiff_t(sizeof(T)); };
        columns.push_back({system.n, static_cast<std::ptrdiff_t>(j * needs.of_column), to_vector(j), true,
                           to_vector(j % system.batch)});
    }
    HostPieces pieces = HostPieces::of_columns(system.columns, needs.sums * sizeof(Wide<T>));
    PiecesQueue queue(pieces, columns);
    return run_method(method, queue, at_once, limits, lease.data(), look);
}

// Chooses the kind of solve for the system.
template <class T>
Reports run(std::string_view method, System<T> system, const Limits& limits, SolverMemory& memory, const Stream* after,
            const LookAt& look) {
    if (system.columns > 1) return solve_columns(method, system, limits, memory, after, look);
    if (const PartedMatrix<T>* const matrix = PermutedSystem<T>::matrix_of(system, limits)) {
        PermutedSystem<T> permuted(system, *matrix, memory, after);
        const Reports reports = run(method, permuted.inside(), limits, memory, after, look);
        permuted.deliver();
        return reports;
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
    // The system is one piece, so that solvers are compiled once for the CPU.
    HostPieces pieces(1, needs.sums * sizeof(Wide<T>), system.ranks);
    PiecesQueue queue(pieces);
    return run_method(method, queue, system, limits, lease.data(), look);
}

// Solves again where numbers were out of range, scaled. Of a batch, others keep what they have.
template <class T, class Solve>
void again_if_out_of_range(const System<T>& system, Report* reports, Limits limits, Solve&& solve) {
    limits.scaled = true;
    const auto is_out = [&](index_t j) { return reports[j].status == Status::kOutOfRange; };
    for (index_t column = 0; column < system.columns; ++column) {
        if (!is_out(column)) continue;
        limits.scaled_as = column;
        limits.is_solved.clear();
        for (index_t j = 0; j < system.columns; ++j) limits.is_solved.push_back(!is_out(j));
        const std::size_t n = system.n;
        const Array<T> before = Array<T>::view(system.x, n * system.columns, system.device).to(system.device);
        const Reports again = solve(system, limits);
        for (index_t j = 0; j < system.columns; ++j) {
            if (is_out(j)) {
                reports[j] = again[j];
            } else {
                copy_bytes(system.x + j * n, system.device, before.data() + j * n, system.device, n * sizeof(T));
            }
        }
    }
}

}  // namespace

std::vector<std::string> method_names() {
    std::vector<std::string> names;
    Methods<double>::for_each_name([&](const char* name) { names.emplace_back(name); });
    return names;
}

template <class T>
Reports solve(std::string_view method, const System<T>& system, const Limits& limits, SolverMemory& memory,
              const Stream* after, const LookAt& look) {
    const auto start = std::chrono::steady_clock::now();
    Reports reports = run(method, system, limits, memory, after, look);
    for (std::size_t j = 0; j < reports.size(); j += system.batch) {
        const auto solve_again = [&](const System<T>& columns, const Limits& scaled) {
            return run(method, columns, scaled, memory, after, look);
        };
        again_if_out_of_range(system.product(j), &reports[j], limits, solve_again);
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    for (Report& report : reports) report.seconds = seconds;
    return reports;
}

#define INSTANTIATE(T)                                                                                      \
    template Reports solve(std::string_view, const System<T>&, const Limits&, SolverMemory&, const Stream*, \
                           const LookAt&);
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
