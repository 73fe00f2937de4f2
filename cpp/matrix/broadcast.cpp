#include "matrix/broadcast.hpp"

#include <algorithm>
#include <stdexcept>

#include "cuda/gather.hpp"
#include "cuda/runtime.hpp"
#include "cuda/transfer.hpp"

namespace spmvgpu {

namespace {

// Memory that copies from device to device can reach; page-locked on the CPU.
std::shared_ptr<void> allocate_reachable(std::size_t bytes, Device device) {
    return device.is_cuda() ? allocate(bytes, device) : cuda::allocate_pinned(std::max<std::size_t>(bytes, 1));
}

template <class T>
bool goes_straight_into_y(const Share<T>& share, const Product<T>& product) {
    return !share.rows.scattered() && product.beta == T(0);
}

}  // namespace

template <class T>
std::unique_ptr<typename Broadcast<T>::Lane> Broadcast<T>::make_lane(const Share<T>& share, Device home) {
    const Device works_on = share.device().is_cuda() ? share.device() : home;
    if (works_on != home) {
        cuda::allow_peer_access(home.ordinal, works_on.ordinal);
        cuda::allow_peer_access(works_on.ordinal, home.ordinal);
    }
    const cuda::DeviceGuard guard(works_on.ordinal);
    return std::unique_ptr<Lane>(new Lane{&share,
                                          works_on,
                                          cuda::lease_stream(works_on.ordinal),
                                          allocate_reachable(share.window() * sizeof(T), share.device()),
                                          allocate_reachable(share.row_count() * sizeof(T), share.device()),
                                          {},
                                          share.rows.scattered() ? share.rows.map.to(home) : Array<index_t>(),
                                          {}});
}

template <class T>
Broadcast<T>::Home::Home(const std::vector<Share<T>>& shares, Device device) : device(device) {
    for (const Share<T>& share : shares) {
        if (share.row_count() == 0) continue;
        if (share.device() == device) {
            here.push_back({&share, share.rows.scattered() ? share.rows.map.to(device) : Array<index_t>()});
        } else {
            lanes.push_back(make_lane(share, device));
        }
    }
}

// Work that is still queued uses memory that is about to be freed.
template <class T>
Broadcast<T>::~Broadcast() {
    for (const auto& [ordinal, home] : homes_) {
        for (const auto& lane : home->lanes) {
            try {
                cuda::synchronize(lane->stream.get(), lane->works_on.ordinal);
            } catch (...) {  // the device is lost, and its work with it
            }
        }
    }
}

template <class T>
void Broadcast<T>::run(const Product<T>& product, Device device, Stream stream) {
    const cuda::DeviceGuard guard(device.ordinal);
    if (cuda::is_capturing(stream)) {
        throw std::invalid_argument("products of an operator on several devices cannot be captured into a graph");
    }
    const std::lock_guard turn(turn_);
    auto found = homes_.find(device.ordinal);
    if (found == homes_.end()) {
        found = homes_.emplace(device.ordinal, std::make_unique<Home>(shares_, device)).first;
    }
    Home& home = *found->second;

    home.begun.record(stream);
    for (auto& lane : home.lanes) send(home, *lane, product);
    const auto multiply_lanes = [&](bool on_gpus) {
        for (auto& lane : home.lanes) {
            if (lane->share->device().is_cuda() == on_gpus) multiply_and_return(home, *lane, product);
        }
    };
    multiply_lanes(true);
    for (const Here& here : home.here) {
        Product<T> own = product;
        if (here.map.size() > 0) {
            own.row_map = here.map.data();
        } else {
            own.y += here.share->rows.first;
        }
        here.share->matrix->spmv(own, stream);
    }
    multiply_lanes(false);  // last, as the host works itself
    for (auto& lane : home.lanes) land(home, *lane, product, stream);
    home.landed.record(stream);
}

// Behind what the caller's stream holds, and behind what was done with the landing place before, on whichever stream.
template <class T>
void Broadcast<T>::send(const Home& home, Lane& lane, const Product<T>& product) {
    const cuda::DeviceGuard guard(lane.works_on.ordinal);
    const Share<T>& share = *lane.share;
    if (!goes_straight_into_y(share, product) && lane.landing.size() == 0) {
        lane.landing = Array<T>(share.row_count(), home.device);
    }
    home.begun.hold_back(lane.stream.get());
    home.landed.hold_back(lane.stream.get());
    cuda::copy_async(lane.own_x(), share.device(), product.x + share.col_begin, home.device, share.window() * sizeof(T),
                     lane.stream.get());
}

template <class T>
void Broadcast<T>::multiply_and_return(const Home& home, Lane& lane, const Product<T>& product) {
    const cuda::DeviceGuard guard(lane.works_on.ordinal);
    const Share<T>& share = *lane.share;
    if (!share.device().is_cuda()) cuda::synchronize(lane.stream.get(), lane.works_on.ordinal);  // x has come
    share.matrix->spmv({as_whole(lane.own_x(), share.col_begin), lane.own_y(), product.alpha}, lane.stream.get());
    T* const to = goes_straight_into_y(share, product) ? product.y + share.rows.first : lane.landing.data();
    cuda::copy_async(to, home.device, lane.own_y(), share.device(), share.row_count() * sizeof(T), lane.stream.get());
    lane.done.record(lane.stream.get());
}

template <class T>
void Broadcast<T>::land(const Home& home, Lane& lane, const Product<T>& product, Stream stream) {
    const Share<T>& share = *lane.share;
    lane.done.hold_back(stream);
    if (goes_straight_into_y(share, product)) return;
    T* const y = share.rows.scattered() ? product.y : product.y + share.rows.first;
    const index_t* const map = share.rows.scattered() ? lane.map.data() : nullptr;
    cuda::scatter(y, lane.landing.data(), map, static_cast<index_t>(share.row_count()), product.beta,
                  home.device.ordinal, stream);
}

template <class T>
std::size_t Broadcast<T>::nbytes() const {
    const std::lock_guard turn(turn_);
    std::size_t bytes = 0;
    for (const auto& [ordinal, home] : homes_) {
        for (const auto& lane : home->lanes) {
            if (lane->share->device().is_cuda()) {
                bytes += footprint(lane->share->window() * sizeof(T), lane->share->device()) +
                         footprint(lane->share->row_count() * sizeof(T), lane->share->device());
            }
            bytes += lane->landing.footprint() + lane->map.footprint();
        }
        for (const Here& here : home->here) bytes += here.map.footprint();
    }
    return bytes;
}

template class Broadcast<float>;
template class Broadcast<double>;

}  // namespace spmvgpu
