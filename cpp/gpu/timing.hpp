#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/types.hpp"

namespace spmvgpu {

// Number of timed launches: `repeats` batches, after `warmups` others.
struct Series {
    int batch, warmups, repeats;

    int launches() const { return 1 + batch * (warmups + repeats); }
};

// About `repeats` products, for a measurement.
Series long_series(Device device, int repeats);

// Few products, to compare formats: at most 13 for a matrix with more than a million non-zeros.
Series trial_series(Device device, std::int64_t nnz);

// About a millisecond of products on a GPU, and ten on the CPU, to decide between formats that are close. On a GPU many
// products are timed at once, because events do not resolve shorter times.
Series final_series(Device device, double product_us);

// Median microseconds of one launch(stream). A first launch is not timed: it brings the matrix as close as the caches
// allow, and allocates. On the CPU this is wall time; on a GPU, device time of replays of a graph that holds a batch of
// launches.
double time_launches(const std::function<void(Stream)>& launch, const Series& series, Device device);

namespace gpu {
double time_on_gpu(const std::function<void(Stream)>& launch, const Series& series, int ordinal);
}

double median(std::vector<double> values);

}  // namespace spmvgpu
