#include "multi/host_products.hpp"

#include <algorithm>

#include "core/parallel.hpp"
#include "gpu/gather.hpp"

namespace spmvgpu {

template <class T>
HostProducts<T>::HostProducts(const std::vector<DevicePart<T>>& parts) {
    for (const DevicePart<T>& part : parts) {
        if (part.row_count() == 0) continue;
        if (!part.device().has_own_memory()) {
            on_cpu_.push_back(&part);
            continue;
        }
        const std::size_t bytes = part.rows.scattered() ? part.row_count() * sizeof(T) : 0;
        lanes_.emplace_back(new Lane{&part, bytes > 0 ? gpu::allocate_pinned(bytes) : nullptr});
    }
    const int gpus = static_cast<int>(lanes_.size()), threads = max_threads();
    cpu_threads_ = threads - gpus;
    if (gpus > 1 || (gpus > 0 && !on_cpu_.empty())) workers_ = Workers::start(gpus, threads / (gpus + 1));
}

template <class T>
void HostProducts<T>::run(const Product<T>& product) {
    const std::lock_guard turn(turn_);
    if (!workers_) {
        for (auto& lane : lanes_) multiply_on_gpu(*lane, product);
        for (const DevicePart<T>* part : on_cpu_) multiply_on_cpu(*part, product);
        return;
    }
    workers_->run([&](int number) { multiply_on_gpu(*lanes_[number], product); },
                  [&] {
                      if (on_cpu_.empty()) return;
                      const ThreadLimit limit(cpu_threads_);
                      for (const DevicePart<T>* part : on_cpu_) multiply_on_cpu(*part, product);
                  });
}

template <class T>
void HostProducts<T>::multiply_on_gpu(Lane& lane, const Product<T>& product) {
    const DevicePart<T>& part = *lane.part;
    const auto multiply = [&](const Product<T>& on_device, Stream stream) {
        Product<T> own = on_device;
        own.x = as_whole(on_device.x, part.col_begin);
        part.matrix->spmv(own, stream);
    };
    Product<T> own{product.x + part.col_begin, product.y + part.rows.first, product.alpha, product.beta};
    if (part.rows.scattered()) {
        own.y = static_cast<T*>(lane.staging.get());
        own.beta = T(0);
    }
    lane.exchange.run(own, part.window(), part.row_count(), part.device(), multiply);
    if (part.rows.scattered()) gpu::scatter(product.y, own.y, part.rows.indices, product.beta, nullptr);
}

template <class T>
std::size_t HostProducts<T>::nbytes() const {
    std::size_t bytes = 0;
    for (const auto& lane : lanes_) bytes += lane->exchange.nbytes();
    return bytes;
}

#define INSTANTIATE(T) template class HostProducts<T>;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
