#include "matrix/host_products.hpp"

#include <algorithm>

#include "core/parallel.hpp"

namespace spmvgpu {

template <class T>
HostProducts<T>::HostProducts(const std::vector<Share<T>>& shares) {
    for (const Share<T>& share : shares) {
        if (share.row_count() == 0) continue;
        if (!share.device().is_cuda()) {
            on_cpu_.push_back(&share);
            continue;
        }
        lanes_.emplace_back(new Lane{
            &share,
            {static_cast<index_t>(share.row_count()), static_cast<index_t>(share.window()), share.device().ordinal},
            {}});
        if (share.rows.scattered()) lanes_.back()->landing = cuda::allocate_pinned(share.row_count() * sizeof(T));
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
        for (const Share<T>* share : on_cpu_) multiply_on_cpu(*share, product);
        return;
    }
    workers_->run([&](int number) { multiply_on_gpu(*lanes_[number], product); },
                  [&] {
                      if (on_cpu_.empty()) return;
                      const ThreadLimit limit(cpu_threads_);
                      for (const Share<T>* share : on_cpu_) multiply_on_cpu(*share, product);
                  });
}

template <class T>
void HostProducts<T>::multiply_on_gpu(Lane& lane, const Product<T>& product) {
    const Share<T>& share = *lane.share;
    const auto multiply = [&](const Product<T>& on_device, Stream stream) {
        Product<T> own = on_device;
        own.x = as_whole(on_device.x, share.col_begin);
        share.matrix->spmv(own, stream);
    };
    const T* const window = product.x + share.col_begin;
    if (!share.rows.scattered()) {
        return lane.exchange.run({window, product.y + share.rows.first, product.alpha, product.beta}, multiply);
    }
    T* const landing = static_cast<T*>(lane.landing.get());
    lane.exchange.run({window, landing, product.alpha, T(0)}, multiply);
    scatter_on_host(product.y, landing, share.rows, static_cast<index_t>(share.row_count()), product.beta);
}

template <class T>
std::size_t HostProducts<T>::nbytes() const {
    std::size_t bytes = 0;
    for (const auto& lane : lanes_) bytes += lane->exchange.nbytes();
    return bytes;
}

template class HostProducts<float>;
template class HostProducts<double>;

}  // namespace spmvgpu
