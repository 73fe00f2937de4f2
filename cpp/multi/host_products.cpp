#include "multi/host_products.hpp"

#include <algorithm>

#include "core/parallel.hpp"
#include "gpu/gather.hpp"

namespace spmvgpu {

template <class T>
HostProducts<T>::HostProducts(const std::vector<Shard<T>>& shards) {
    for (const Shard<T>& shard : shards) {
        if (shard.row_count() == 0) continue;
        if (!shard.device().has_own_memory()) {
            on_cpu_.push_back(&shard);
            continue;
        }
        const std::size_t bytes = shard.rows.scattered() ? shard.row_count() * sizeof(T) : 0;
        lanes_.emplace_back(new Lane{&shard, bytes > 0 ? gpu::allocate_pinned(bytes) : nullptr});
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
        for (const Shard<T>* shard : on_cpu_) multiply_on_cpu(*shard, product);
        return;
    }
    workers_->run([&](int number) { multiply_on_gpu(*lanes_[number], product); },
                  [&] {
                      if (on_cpu_.empty()) return;
                      const ThreadLimit limit(cpu_threads_);
                      for (const Shard<T>* shard : on_cpu_) multiply_on_cpu(*shard, product);
                  });
}

template <class T>
void HostProducts<T>::multiply_on_gpu(Lane& lane, const Product<T>& product) {
    const Shard<T>& shard = *lane.shard;
    const auto multiply = [&](const Product<T>& on_device, Stream stream) {
        Product<T> own = on_device;
        own.x = as_whole(on_device.x, shard.col_begin);
        shard.matrix->spmv(own, stream);
    };
    Product<T> own{product.x + shard.col_begin, product.y + shard.rows.first, product.alpha, product.beta};
    if (shard.rows.scattered()) {
        own.y = static_cast<T*>(lane.staging.get());
        own.beta = T(0);
    }
    lane.exchange.run(own, shard.window(), shard.row_count(), shard.device(), multiply);
    if (shard.rows.scattered()) gpu::scatter(product.y, own.y, shard.rows.indices, product.beta, nullptr);
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
