// How long products take.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/types.hpp"

namespace spmvgpu {

// How many launches are timed: `repeats` batches, after `warmups` others.
struct Series {
    int batch, warmups, repeats;

    int launches() const { return 1 + batch * (warmups + repeats); }
};

// About `repeats` products, to measure by.
Series long_series(Device device, int repeats);

// Few products, to compare formats by: of a matrix beyond a million non-zeros at most 13.
Series trial_series(Device device, std::int64_t nnz);

// About a millisecond of products on a GPU, and ten on the CPU, to decide between formats that are close. Of a GPU's
// products many are timed at once, for events tell no shorter times apart.
Series final_series(Device device, double product_us);

// Median microseconds of one launch(stream), which is called once before: it brings the matrix as close as the caches
// allow, and allocates whatever a first launch does. On the CPU, wall time; on a GPU, device time of replays of a graph
// that holds a batch of them.
double time_launches(const std::function<void(Stream)>& launch, const Series& series, Device device);

namespace gpu {
double time_on_gpu(const std::function<void(Stream)>& launch, const Series& series, int ordinal);
}

// Of these, in whatever order.
double median(std::vector<double> values);

}  // namespace spmvgpu
