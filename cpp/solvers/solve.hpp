// Krylov solvers on the device where the vectors are.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "solvers/system/memory.hpp"
#include "solvers/system/system.hpp"

namespace spmvgpu {

std::vector<std::string> method_names();  // of the list in methods/methods.hpp

// Solves by the method of this name. Complete when it returns. On a GPU the work starts after what the stream `after`
// holds, if that is given. look() may throw, which ends the solve. Throws std::invalid_argument, with the names that
// there are, for another name.
template <class T>
Report solve(std::string_view method, const System<T>& system, const Limits& limits, SolverMemory& memory,
             const Stream* after, const LookAt& look);

}  // namespace spmvgpu
