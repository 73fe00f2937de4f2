#include "matrix/timing.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

namespace spmvgpu {

Series long_series(Device device, int repeats) {
    constexpr int kBatch = 10;
    if (device.is_cuda()) return {kBatch, 2, std::max(1, repeats / kBatch)};
    return {1, 0, std::max(1, repeats)};
}

Series trial_series(Device device, std::int64_t nnz) {
    constexpr std::int64_t kLarge = 1'000'000;
    if (device.is_cuda()) return nnz > kLarge ? Series{4, 1, 2} : Series{10, 2, 3};
    return {1, 0, nnz > kLarge ? 5 : 20};
}

double time_series(const std::function<void(Stream)>& multiply, const Series& series, Device device) {
    if (device.is_cuda()) return cuda::time_launches(multiply, series, device.ordinal);
    std::vector<double> times(series.repeats);
    multiply(nullptr);  // brings the matrix as close as the caches allow
    for (double& time : times) {
        const auto start = std::chrono::steady_clock::now();
        multiply(nullptr);
        time = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
    }
    std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
    return times[times.size() / 2];
}

}  // namespace spmvgpu
