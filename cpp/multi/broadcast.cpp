#include "multi/broadcast.hpp"

#include <algorithm>
#include <stdexcept>

#include "gpu/gather.hpp"
#include "gpu/runtime.hpp"
#include "gpu/transfer.hpp"

namespace spmvgpu {

namespace {

// Memory on a device that copies from and to the root can access.
std::shared_ptr<void> allocate_reachable(std::size_t bytes, Device device, Device root) {
    return device.has_own_memory() ? allocate(bytes, device) : gpu::allocate_for_transfers(bytes, root);
}

template <class T>
bool goes_straight_into_y(const DevicePart<T>& part, const Product<T>& product) {
    return !part.rows.scattered() && product.beta == T(0);
}

}  // namespace

template <class T>
std::unique_ptr<typename Broadcast<T>::Lane> Broadcast<T>::make_lane(const DevicePart<T>& part, Device root) {
    const Device works_on = part.device().queues_work() ? part.device() : root;
    gpu::allow_peer_access(root, works_on);
    return std::unique_ptr<Lane>(new Lane{&part,
                                          works_on,
                                          gpu::lease_stream(works_on),
                                          allocate_reachable(part.window() * sizeof(T), part.device(), root),
                                          allocate_reachable(part.row_count() * sizeof(T), part.device(), root),
                                          {},
                                          part.rows.scattered() ? part.rows.indices.to(root) : Array<index_t>(),
                                          gpu::Event(works_on)});
}

template <class T>
Broadcast<T>::Root::Root(const std::vector<DevicePart<T>>& parts, Device device)
    : device(device), begun(device), delivered(device) {
    for (const DevicePart<T>& part : parts) {
        if (part.row_count() == 0) continue;
        if (part.device() == device) {
            here.push_back({&part, part.rows.scattered() ? part.rows.indices.to(device) : Array<index_t>()});
        } else {
            lanes.push_back(make_lane(part, device));
        }
    }
}

// Queued work uses memory that is about to be freed.
template <class T>
Broadcast<T>::~Broadcast() {
    for (const auto& [ordinal, root] : roots_) {
        for (const auto& lane : root->lanes) {
            try {
                gpu::synchronize(lane->stream.get(), lane->works_on);
            } catch (...) {  // the device and its work are lost
            }
        }
    }
}

template <class T>
void Broadcast<T>::run(const Product<T>& product, Device device, Stream stream) {
    const gpu::DeviceGuard guard(device);
    if (gpu::is_capturing(stream, device)) {
        throw std::invalid_argument("products of an operator on several devices cannot be captured into a graph");
    }
    const std::lock_guard turn(turn_);
    auto found = roots_.find(device.ordinal);
    if (found == roots_.end()) {
        found = roots_.emplace(device.ordinal, std::make_unique<Root>(parts_, device)).first;
    }
    Root& root = *found->second;

    root.begun.record(stream);
    for (auto& lane : root.lanes) send(root, *lane, product);
    const auto multiply_lanes = [&](bool queued) {
        for (auto& lane : root.lanes) {
            if (lane->part->device().queues_work() == queued) multiply_and_return(*lane, product);
        }
    };
    multiply_lanes(true);
    for (const Here& here : root.here) {
        Product<T> own = product;
        if (here.map.size() > 0) {
            own.row_map = here.map.data();
        } else {
            own.y += here.part->rows.first;
        }
        here.part->matrix->spmv(own, stream);
    }
    multiply_lanes(false);  // last, because the host does this work itself
    for (auto& lane : root.lanes) deliver(root, *lane, product, stream);
    root.delivered.record(stream);
}

// The copy comes after the work of the caller's stream, and after the last use of the staging memory, on whichever
// stream.
template <class T>
void Broadcast<T>::send(const Root& root, Lane& lane, const Product<T>& product) {
    const gpu::DeviceGuard guard(lane.works_on);
    const DevicePart<T>& part = *lane.part;
    if (!goes_straight_into_y(part, product) && lane.staging.size() == 0) {
        lane.staging = Array<T>(part.row_count(), root.device);
    }
    root.begun.hold_back(lane.stream.get());
    root.delivered.hold_back(lane.stream.get());
    gpu::copy_async(lane.own_x(), product.x + part.col_begin, part.window() * sizeof(T), lane.stream.get());
}

template <class T>
void Broadcast<T>::multiply_and_return(Lane& lane, const Product<T>& product) {
    const gpu::DeviceGuard guard(lane.works_on);
    const DevicePart<T>& part = *lane.part;
    if (!part.device().queues_work()) gpu::synchronize(lane.stream.get(), lane.works_on);  // x has arrived
    part.matrix->spmv({as_whole(lane.own_x(), part.col_begin), lane.own_y(), product.alpha}, lane.stream.get());
    T* const to = goes_straight_into_y(part, product) ? product.y + part.rows.first : lane.staging.data();
    gpu::copy_async(to, lane.own_y(), part.row_count() * sizeof(T), lane.stream.get());
    lane.done.record(lane.stream.get());
}

template <class T>
void Broadcast<T>::deliver(const Root& root, Lane& lane, const Product<T>& product, Stream stream) {
    const DevicePart<T>& part = *lane.part;
    lane.done.hold_back(stream);
    if (goes_straight_into_y(part, product)) return;
    T* const y = part.rows.scattered() ? product.y : product.y + part.rows.first;
    const index_t* const map = part.rows.scattered() ? lane.map.data() : nullptr;
    gpu::scatter(y, lane.staging.data(), map, static_cast<index_t>(part.row_count()), product.beta, root.device,
                 stream);
}

template <class T>
std::size_t Broadcast<T>::nbytes() const {
    const std::lock_guard turn(turn_);
    std::size_t bytes = 0;
    for (const auto& [ordinal, root] : roots_) {
        for (const auto& lane : root->lanes) {
            const DevicePart<T>& part = *lane->part;
            if (part.device().has_own_memory()) bytes += (part.window() + part.row_count()) * sizeof(T);
            bytes += lane->staging.bytes() + lane->map.bytes();
        }
        for (const Here& here : root->here) bytes += here.map.bytes();
    }
    return bytes;
}

#define INSTANTIATE(T) template class Broadcast<T>;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
