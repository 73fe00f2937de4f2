// How long a product takes.
#pragma once

#include <functional>

#include "core/types.hpp"
#include "gpu/runtime.hpp"

namespace spmvgpu {

using Series = cuda::Series;

// About `repeats` products, to measure by.
Series long_series(Device device, int repeats);

// Few products, to compare formats by: of a matrix beyond a million non-zeros at most 13.
Series trial_series(Device device, std::int64_t nnz);

// Median microseconds of one multiply(stream): device time on a GPU, where it queues work on the stream, wall time on
// the CPU.
double time_series(const std::function<void(Stream)>& multiply, const Series& series, Device device);

}  // namespace spmvgpu
