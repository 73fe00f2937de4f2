#pragma once

#include <optional>

namespace spmvgpu {

// Threads of the process according to the environment: SPMVGPU_NUM_THREADS, or else the first number of
// OMP_NUM_THREADS. Throws std::invalid_argument if the former is anything but a number from 1 on; the latter belongs to
// OpenMP, so a malformed value is ignored.
std::optional<int> threads_of_environment();

}  // namespace spmvgpu
