#include "multi/multi_device_vector.hpp"

#include <algorithm>
#include <stdexcept>

#include "core/memory.hpp"
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
    if (multiply_recorded(alpha, x, beta, y)) return;
    if (was_recorded_) others_after_first();
    was_recorded_ = false;
    multiply_each(/*on_gpus=*/true, alpha, x, beta, y);
    multiply_each(/*on_gpus=*/false, alpha, x, beta, y);  // while the GPUs work
}

template <class T>
void HaloProducts<T>::multiply_each(bool on_gpus, T alpha, MultiDeviceVector<T>& x, T beta,
                                    MultiDeviceVector<T>& y) const {
    for (const Lane& lane : halos_.lanes()) {
        if (lane.device.queues_work() != on_gpus) continue;
        const Piece &own_x = x.pieces_[number(lane)], &own_y = y.pieces_[number(lane)];
        const Product<T> product{own_x.data(), own_y.data() + own_y.begin, alpha, beta};
        on_gpus ? multiply_on_gpu(lane, product, x, y) : multiply_on_cpu(lane, product, x, y);
    }
}

// Returns false if the work is to be queued.
template <class T>
bool HaloProducts<T>::multiply_recorded(T alpha, MultiDeviceVector<T>& x, T beta, MultiDeviceVector<T>& y) {
    constexpr int kTimesQueued = 8;  // in turn, each after a GPU waited for the host
    if (halos_.has_cpus() || halos_.lanes().size() < 2 || !halos_.can_be_recorded()) return false;
    Repeated& product = repeated(alpha, x, beta, y);
    if (!product.replay) {
        product.times = x.pieces_[0].made.is_over() ? product.times + 1 : 0;
        if (product.times <= kTimesQueued) return false;
    }
    if (!was_recorded_) first_after_others();
    const gpu::DeviceGuard guard(halos_.lanes()[0].device);
    if (!product.replay) {
        is_recording_ = true;
        const std::shared_ptr<void> recorded(nullptr, [this](void*) { is_recording_ = false; });
        product.replay = std::make_unique<gpu::Replay>(streams_[0].get(), [&] {
            others_after_first();
            multiply_each(/*on_gpus=*/true, alpha, x, beta, y);
            first_after_others();
        });
    }
    product.replay->launch();
    was_recorded_ = true;
    return true;
}

template <class T>
typename HaloProducts<T>::Repeated& HaloProducts<T>::repeated(T alpha, const MultiDeviceVector<T>& x, T beta,
                                                              const MultiDeviceVector<T>& y) {
    constexpr std::size_t kMost = 8;
    std::vector<const T*> memory;
    for (const auto* vector : {&x, &y}) {
        for (const Piece& piece : vector->pieces_) memory.push_back(piece.data());
    }
    const auto found = std::find_if(repeated_.begin(), repeated_.end(), [&](const Repeated& other) {
        return other.memory == memory && other.alpha == alpha && other.beta == beta;
    });
    if (found != repeated_.end()) {
        repeated_.splice(repeated_.begin(), repeated_, found);
    } else {
        repeated_.push_front({std::move(memory), alpha, beta});
        if (repeated_.size() > kMost) repeated_.pop_back();
    }
    return repeated_.front();
}

template <class T>
void HaloProducts<T>::others_after_first() const {
    const std::vector<Lane>& lanes = halos_.lanes();
    gpu::Event reached(lanes[0].device);
    reached.record(streams_[0].get());
    for (std::size_t k = 1; k < lanes.size(); ++k) {
        const gpu::DeviceGuard guard(lanes[k].device);
        reached.hold_back(streams_[k].get());
    }
}

template <class T>
void HaloProducts<T>::first_after_others() const {
    const std::vector<Lane>& lanes = halos_.lanes();
    for (std::size_t k = 1; k < lanes.size(); ++k) {
        const gpu::DeviceGuard guard(lanes[k].device);
        gpu::Event reached;
        reached.record(streams_[k].get());
        reached.hold_back(streams_[0].get());
    }
}

// All awaited events were recorded by earlier calls. Pieces on the CPU have none, because work on them is done when a
// call returns. A recorded product comes after all work of earlier ones.
template <class T>
void HaloProducts<T>::multiply_on_gpu(const Lane& lane, Product<T> product, MultiDeviceVector<T>& x,
                                      MultiDeviceVector<T>& y) const {
    const Device device = lane.device;
    const gpu::DeviceGuard guard(device);
    const Stream stream = streams_[number(lane)].get();
    const Stream pulling = pulling_[number(lane)] ? pulling_[number(lane)].get() : stream;
    if (pulling != stream) gpu::order_after(pulling, stream);  // its previous halo may still be in use
    Piece &own_x = x.pieces_[number(lane)], &own_y = y.pieces_[number(lane)];
    for (const auto& pull : lane.pulls) {
        const Piece& other = x.pieces_[pull.from];
        if (!is_recording_) other.made.hold_back(pulling);
        gpu::copy_async(own_x.data() + pull.begin, other.data() + pull.begin,
                        std::size_t(pull.end - pull.begin) * sizeof(T), pulling);
    }
    if (is_recording_) return lane.multiply(product, stream, pulling);
    own_x.pulled.record(pulling);
    for (const std::size_t reader : lane.read_by) {  // readers of the old y
        y.pieces_[reader].pulled.hold_back(stream);
        if (pulling != stream) y.pieces_[reader].pulled.hold_back(pulling);
    }
    lane.multiply(product, stream, pulling);
    own_y.made.record(stream);
}

template <class T>
void HaloProducts<T>::multiply_on_cpu(const Lane& lane, Product<T> product, MultiDeviceVector<T>& x,
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
