// Products of a multi-device matrix with vectors in host memory. A thread per GPU sends its part the elements of x that
// it reads and fetches its part of y, while the calling thread and its team do the CPU's parts.
#pragma once

#include <memory>
#include <vector>

#include "core/mutex.hpp"
#include "matrix/host_vectors.hpp"
#include "multi/device_part.hpp"
#include "multi/workers.hpp"

namespace spmvgpu {

template <class T>
class HostProducts {
public:
    explicit HostProducts(const std::vector<DevicePart<T>>& parts);  // which outlive it

    // Complete when it returns. Threads take turns.
    void run(const Product<T>& product);

    std::size_t nbytes() const;

private:
    struct Lane {
        const DevicePart<T>* part;
        std::shared_ptr<void> staging;  // page-locked, for rows that are not contiguous in y
        VectorExchange<T> exchange{};
    };
    static void multiply_on_gpu(Lane& lane, const Product<T>& product);

    Mutex turn_;
    std::vector<const DevicePart<T>*> on_cpu_;
    std::vector<std::unique_ptr<Lane>> lanes_;  // of the GPUs
    Workers::Owner workers_;                    // if several parts run at once
    int cpu_threads_;
};

}  // namespace spmvgpu
