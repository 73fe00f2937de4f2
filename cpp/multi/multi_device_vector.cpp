#include "multi/multi_device_vector.hpp"

#include <algorithm>
#include <stdexcept>

#include "core/interrupt.hpp"
#include "core/memory.hpp"
#include "core/parallel.hpp"
#include "gpu/runtime.hpp"
#include "gpu/transfer.hpp"

namespace spmvgpu {

template <class T>
MultiDeviceVector<T>::MultiDeviceVector(const HaloProducts<T>& layout) : layout_(&layout), size_(layout.halos_.size()) {
    for (const auto& lane : layout.halos_.lanes()) {
        const Device device = lane.device;
        const std::size_t bytes = std::max<std::size_t>(size_, 1) * sizeof(T);
        const bool is_transferred = !device.has_own_memory() && layout.halos_.has_gpus();
        pieces_.push_back({device, lane.begin, lane.end,
                           is_transferred ? gpu::allocate_pinned(bytes) : allocate(bytes, device),
                           layout.streams_[layout.number(lane)], gpu::Event(device), gpu::Event(device)});
    }
}

// Queued work uses memory that is about to be freed.
template <class T>
MultiDeviceVector<T>::~MultiDeviceVector() {
    try {
        wait();
    } catch (...) {  // the device and its work are lost
    }
}

template <class T>
void MultiDeviceVector<T>::wait() const {
    for (const Piece& piece : pieces_) {
        gpu::synchronize(piece.stream.get(), piece.device);
    }
}

template <class T>
void MultiDeviceVector<T>::assign(const T* host) {
    const std::lock_guard turn(layout_->turn_);
    wait();  // a product may be reading the old values
    for (const Piece& piece : pieces_) {
        copy_bytes(piece.data() + piece.begin, piece.device, host + piece.begin, {}, piece.bytes());
    }
}

template <class T>
void MultiDeviceVector<T>::collect(T* host) const {
    const std::lock_guard turn(layout_->turn_);
    wait();
    for (const Piece& piece : pieces_) {
        copy_bytes(host + piece.begin, {}, piece.data() + piece.begin, piece.device, piece.bytes());
    }
}

template <class T>
std::size_t MultiDeviceVector<T>::nbytes() const {
    std::size_t bytes = 0;
    for (const Piece& piece : pieces_) {
        if (piece.device.has_own_memory()) bytes += size_ * sizeof(T);
    }
    return bytes;
}

template <class T>
HaloProducts<T>::HaloProducts(const Halos<T>& halos) : halos_(halos) {
    for (const Lane& lane : halos.lanes()) {
        const Device device = lane.device;
        const bool feeds_cpu = std::any_of(lane.read_by.begin(), lane.read_by.end(), [&](std::size_t reader) {
            return !halos.lanes()[reader].device.queues_work();
        });
        streams_.push_back(gpu::lease_stream(device));
        pulling_.push_back(lane.has_interior() ? gpu::lease_stream(device) : nullptr);
        downward_.push_back(feeds_cpu ? gpu::lease_stream(device) : nullptr);
    }
}

template <class T>
HaloProducts<T>::~HaloProducts() {
    try {
        synchronize();
    } catch (...) {  // the device and its work are lost
    }
}

template <class T>
void HaloProducts<T>::synchronize() const {
    for (const Lane& lane : halos_.lanes()) {
        gpu::synchronize(streams_[number(lane)].get(), lane.device);
    }
}

template <class T>
std::unique_ptr<MultiDeviceVector<T>> HaloProducts<T>::make_vector() const {
    return std::unique_ptr<MultiDeviceVector<T>>(new MultiDeviceVector<T>(*this));
}

template <class T>
void HaloProducts<T>::run(T alpha, MultiDeviceVector<T>& x, T beta, MultiDeviceVector<T>& y) {
    if (x.layout_ != this || y.layout_ != this) {
        throw std::invalid_argument(
            "a vector that another operator distributed, or this one before it got new values; use distribute() of "
            "this one");
    }
    if (&x == &y) throw std::invalid_argument("out is x itself; give a vector of its own");
    const std::lock_guard turn(turn_);
    const auto& lanes = halos_.lanes();
    if (const gpu::Replay* const replays = recorded(alpha, x, beta, y)) {
        // Several threads launch, because the host may take longer to launch all graphs than the GPUs to run them.
        const Uninterrupted all;
        for_each_piece(std::int64_t(lanes.size()), [&](std::int64_t k) {
            const gpu::DeviceGuard guard(lanes[k].device);
            replays[k].launch();
        });
        return;
    }
    for (const bool on_gpus : {true, false}) {  // the CPU multiplies while the GPUs work
        for (const Lane& lane : lanes) {
            if (lane.device.queues_work() != on_gpus) continue;
            const std::size_t k = number(lane);
            const Product<T> product = product_of(alpha, x.pieces_[k], beta, y.pieces_[k]);
            on_gpus ? multiply_on_gpu(lane, product, x, y) : multiply_on_cpu(lane, product, x, y);
        }
    }
}

template <class T>
const gpu::Replay* HaloProducts<T>::recorded(T alpha, MultiDeviceVector<T>& x, T beta, MultiDeviceVector<T>& y) {
    constexpr int kTimesQueued = 8;  // in turn, each after a GPU waited for the host
    if (halos_.has_cpus() || halos_.lanes().size() < 2 || !halos_.can_be_recorded()) return nullptr;
    Repeated& product = repeated(alpha, x, beta, y);
    if (product.replays.empty()) {
        product.times = x.pieces_[0].made.is_over() ? product.times + 1 : 0;
        if (product.times <= kTimesQueued) return nullptr;
        std::vector<gpu::Replay> replays;
        for (const Lane& lane : halos_.lanes()) {
            const std::size_t k = number(lane);
            const gpu::DeviceGuard guard(lane.device);
            replays.emplace_back(stream_of(lane), [&] {
                multiply_on_gpu(lane, product_of(alpha, x.pieces_[k], beta, y.pieces_[k]), x, y, true);
            });
        }
        product.replays = std::move(replays);
    }
    return product.replays.data();
}

template <class T>
typename HaloProducts<T>::Repeated& HaloProducts<T>::repeated(T alpha, const MultiDeviceVector<T>& x, T beta,
                                                              const MultiDeviceVector<T>& y) {
    constexpr std::size_t kMost = 8;
    std::vector<gpu::Event> events;
    for (const auto* vector : {&x, &y}) {
        for (const Piece& piece : vector->pieces_) events.insert(events.end(), {piece.made, piece.pulled});
    }
    const auto found = std::find_if(repeated_.begin(), repeated_.end(), [&](const Repeated& other) {
        return other.events == events && other.alpha == alpha && other.beta == beta;
    });
    if (found != repeated_.end()) {
        repeated_.splice(repeated_.begin(), repeated_, found);
    } else {
        repeated_.push_front({std::move(events), alpha, beta});
        if (repeated_.size() > kMost) repeated_.pop_back();
    }
    return repeated_.front();
}

// All awaited events were recorded by earlier calls. Pieces on the CPU have none, because work on them is done when a
// call returns.
template <class T>
void HaloProducts<T>::multiply_on_gpu(const Lane& lane, const Product<T>& product, MultiDeviceVector<T>& x,
                                      MultiDeviceVector<T>& y, bool is_recorded) const {
    const gpu::DeviceGuard guard(lane.device);
    const Stream stream = stream_of(lane), pulling = pulling_of(lane);
    Piece &own_x = x.pieces_[number(lane)], &own_y = y.pieces_[number(lane)];
    const auto await_readers_of_old_y = [&](Stream waiting) {
        for (const std::size_t reader : lane.read_by) y.pieces_[reader].pulled.hold_back(waiting, is_recorded);
    };
    if (pulling != stream) gpu::order_after(pulling, stream);  // its previous halo may still be in use
    for (const auto& [from, begin, end] : lane.pulls) {
        const Piece& other = x.pieces_[from];
        other.made.hold_back(pulling, is_recorded);
        gpu::copy_async(own_x.data() + begin, other.data() + begin, std::size_t(end - begin) * sizeof(T), pulling);
    }
    own_x.pulled.record(pulling, is_recorded);
    await_readers_of_old_y(pulling);
    if (pulling != stream && lane.is_interior_read) await_readers_of_old_y(stream);
    lane.multiply(product, stream, pulling);
    own_y.made.record(stream, is_recorded);
}

template <class T>
void HaloProducts<T>::multiply_on_cpu(const Lane& lane, const Product<T>& product, MultiDeviceVector<T>& x,
                                      MultiDeviceVector<T>& y) const {
    const Piece& own_x = x.pieces_[number(lane)];
    for (const auto& pull : lane.pulls) {
        const Piece& other = x.pieces_[pull.from];
        T* const to = own_x.data() + pull.begin;
        const std::size_t bytes = std::size_t(pull.end - pull.begin) * sizeof(T);
        if (!other.device.has_own_memory()) {
            copy_bytes(to, {}, other.data() + pull.begin, {}, bytes);
            continue;
        }
        // This needs a stream of its own, because the GPU's stream already holds its part of this product.
        const gpu::DeviceGuard guard(other.device);
        const Stream stream = downward_[pull.from].get();
        other.made.hold_back(stream);
        gpu::copy_async(to, other.data() + pull.begin, bytes, stream);
    }
    for (const auto& pull : lane.pulls) {
        gpu::synchronize(downward_[pull.from].get(), x.pieces_[pull.from].device);
    }
    for (const std::size_t reader : lane.read_by) {
        y.pieces_[reader].pulled.synchronize();
    }
    lane.part->matrix->spmv(product, nullptr);
}

#define INSTANTIATE(T)                   \
    template class MultiDeviceVector<T>; \
    template class HaloProducts<T>;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
