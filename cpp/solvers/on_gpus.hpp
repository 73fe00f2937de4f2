// Solves with vectors on GPUs, as nvcc compiles them.
#pragma once

#include <string_view>

#include "solvers/system/memory.hpp"
#include "solvers/system/system.hpp"

namespace spmvgpu {
template <class T>
struct SystemInPieces;
}

namespace spmvgpu::gpu {

// See solve(), with vectors on a GPU.
template <class T>
Reports solve_on_gpu(std::string_view method, const System<T>& system, const Limits& limits, SolverMemory& memory,
                     const Stream* after, const LookAt& look);

// See solve(), for a system with maps of all columns.
template <class T>
Reports solve_columns(std::string_view method, const System<T>& system, const Limits& limits, SolverMemory& memory,
                      const Stream* after, const LookAt& look);

// See solve(), with vectors in pieces on several GPUs.
template <class T>
Reports solve_in_pieces(std::string_view method, const SystemInPieces<T>& system, const Limits& limits,
                        SolverMemory& memory, const Stream* after, const LookAt& look);

// See solve(), with this rank's pieces of vectors; the other ranks have the others.
template <class T>
Reports solve_over_ranks(std::string_view method, const System<T>& system, const Limits& limits, SolverMemory& memory,
                         const Stream* after, const LookAt& look);

}  // namespace spmvgpu::gpu
