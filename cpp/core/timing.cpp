#include "core/timing.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

#include "cuda/runtime.hpp"

namespace spmvgpu {

double time_series(const std::function<void(Stream)>& multiply, int repeats, Device device) {
    if (device.is_cuda()) return cuda::time_launches(multiply, repeats, device.ordinal);
    std::vector<double> times(std::max(1, repeats));
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
