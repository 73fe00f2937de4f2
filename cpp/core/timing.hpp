// How long a product takes.
#pragma once

#include <functional>

#include "core/types.hpp"

namespace spmvgpu {

// Median microseconds of one multiply(stream) in a series of `repeats`: device time on a GPU, where it queues work on
// the stream, wall time on the CPU.
double time_series(const std::function<void(Stream)>& multiply, int repeats, Device device);

}  // namespace spmvgpu
