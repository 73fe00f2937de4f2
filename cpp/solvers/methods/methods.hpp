// The solvers by name, for a queue of either kind: included where they are compiled, once for CPUs and once for GPUs.
#pragma once

#include <stdexcept>

#include "solvers/methods/bicgstab.hpp"
#include "solvers/methods/cg.hpp"
#include "solvers/methods/gmres.hpp"
#include "solvers/methods/minres.hpp"

namespace spmvgpu {

// Bytes that a method takes from its context.
template <class T>
std::size_t work_bytes(Method method, index_t n, const Limits& limits) {
    const auto aligned = [](std::size_t bytes) { return (bytes + 255) / 256 * 256; };
    const std::size_t vector = aligned(n * sizeof(T)), scalars = 4096;
    const std::size_t restart = limits.restart, history = aligned(gmres_history(limits.restart) * sizeof(double));
    const std::size_t shared = scalars + history + (limits.scaled ? 2 * vector + scalars : 0);
    switch (method) {
        case Method::kCg:
            return 4 * vector + shared + aligned(parts_of_rows(n) * sizeof(Wide<T>));
        case Method::kBicgstab:
            return 7 * vector + shared;
        case Method::kMinres:
            return 8 * vector + shared;
        case Method::kGmres:
            return (restart + 3) * vector + shared + (restart + 8) * (restart + 8) * sizeof(Wide<T>) + 2048;
    }
    throw std::logic_error("no such method");
}

// Bytes of the sums that a method asks for at once, of whole vectors or of one of their pieces.
template <class T>
std::size_t sum_bytes(const Limits& limits) {
    return std::max(kMaxSums, limits.restart + 2) * sizeof(Wide<T>);
}

template <class T, class Queue>
Report run_method(Method method, Queue& queue, const System<T>& system, const Limits& limits, char* memory,
                  std::size_t bytes, const std::function<void(const Look&)>& look) {
    Context<T, Queue> context(queue, system, limits, memory, bytes, look);
    switch (method) {
        case Method::kCg:
            cg(context);
            break;
        case Method::kBicgstab:
            bicgstab(context);
            break;
        case Method::kMinres:
            minres(context);
            break;
        case Method::kGmres:
            gmres(context);
            break;
    }
    return context.report;
}

}  // namespace spmvgpu
