#include "gpu/timing.hpp"

#include <algorithm>
#include <chrono>

namespace spmvgpu {

Series long_series(Device device, int repeats) {
    constexpr int kBatch = 10;
    if (device.queues_work()) return {kBatch, 2, std::max(1, repeats / kBatch)};
    return {1, 0, std::max(1, repeats)};
}

Series trial_series(Device device, std::int64_t nnz) {
    constexpr std::int64_t kLarge = 1'000'000;
    if (device.queues_work()) return nnz > kLarge ? Series{4, 1, 2} : Series{10, 2, 3};
    return {1, 0, nnz > kLarge ? 5 : 20};
}

Series final_series(Device device, double product_us) {
    const auto products_in = [=](double us, double least, double most) {
        return static_cast<int>(std::clamp(us / product_us, least, most));
    };
    if (!device.queues_work()) return {1, 0, products_in(10e3, 3, 30)};
    const int batch = products_in(100, 1, 50);
    return {batch, 1, std::clamp(products_in(1000, 3, 500) / batch, 3, 10)};
}

double median(std::vector<double> values) {
    std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
    return values[values.size() / 2];
}

double time_launches(const std::function<void(Stream)>& launch, const Series& series, Device device) {
    if constexpr (kHasCuda) {
        if (device.is_gpu()) return gpu::time_on_gpu(launch, series, device.ordinal);
    }
    std::vector<double> times(series.repeats);
    launch(nullptr);
    for (double& time : times) {
        const auto start = std::chrono::steady_clock::now();
        launch(nullptr);
        time = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
    }
    return median(std::move(times));
}

}  // namespace spmvgpu
