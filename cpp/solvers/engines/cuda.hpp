// The solvers as nvcc compiles them.
#pragma once

#include "solvers/preconditioners/cycle.hpp"
#include "solvers/solve.hpp"

namespace spmvgpu {
template <class T>
struct SystemInPieces;
}

namespace spmvgpu::cuda {

// As solve(), with vectors on a GPU, and so many bytes of memory to work with.
template <class T>
Report solve(Method method, const System<T>& system, const Limits& limits, SolverMemory& memory, std::size_t bytes,
             const Stream* after, const std::function<void(const Look&)>& look);

// The same with vectors in pieces on several GPUs.
template <class T>
Report solve_in_pieces(const SystemInPieces<T>& system, Method method, const Limits& limits, SolverMemory& memory,
                       const Stream* after, const std::function<void(const Look&)>& look);

// The same with this rank's pieces of vectors over the GPUs of all ranks.
template <class T>
Report solve_over_ranks(const System<T>& system, const NcclCommunicator& ranks, Method method, const Limits& limits,
                        SolverMemory& memory, std::size_t bytes, const Stream* after,
                        const std::function<void(const Look&)>& look);

// A cycle, queued on the stream.
template <class T>
void run_cycle(const CycleMap<T>& cycle, int ordinal, const T* x, T* y, Stream stream);

}  // namespace spmvgpu::cuda
