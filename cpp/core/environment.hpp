// What environment variables say.
#pragma once

#include <optional>

namespace spmvgpu {

// Threads that the process takes by the environment: SPMVGPU_NUM_THREADS, or else the first number of OMP_NUM_THREADS.
// Throws std::invalid_argument where the former holds anything but a number from 1 on; the latter is not ours, so what
// is odd in it says nothing.
std::optional<int> threads_of_environment();

}  // namespace spmvgpu
