// Krylov solvers on the device where the vectors are.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "solvers/system/memory.hpp"
#include "solvers/system/system.hpp"

namespace spmvgpu {

std::vector<std::string> method_names();  // from the list in methods/methods.hpp

// Solves by the method of this name, and reports on each column. Complete when it returns. On a GPU the work starts
// after the work of the stream `after`, if that is given. look() may throw, which ends the solve. Throws
// std::invalid_argument, with the known names, for another name. Several columns are solved at once, each with its own
// end; vectors are whole then.
template <class T>
Reports solve(std::string_view method, const System<T>& system, const Limits& limits, SolverMemory& memory,
              const Stream* after, const LookAt& look);

}  // namespace spmvgpu
