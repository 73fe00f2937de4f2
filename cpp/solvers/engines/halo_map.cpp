#include "solvers/engines/halo_map.hpp"

#include <algorithm>

#include "core/memory.hpp"
#include "gpu/runtime.hpp"

namespace spmvgpu {

template <class T>
PieceLayout<T>::PieceLayout(const std::vector<const Halos<T>*>& halos) {
    constexpr index_t kAligned = 256 / sizeof(T);
    for (std::size_t k = 0; k < halos[0]->lanes().size(); ++k) {
        const index_t begin = halos[0]->lanes()[k].begin, end = halos[0]->lanes()[k].end;
        index_t first = begin, last = end;
        for (const Halos<T>* matrix : halos) {
            const DevicePart<T>* const part = matrix->lanes()[k].part;
            if (part == nullptr || part->window() == 0) continue;
            first = std::min(first, part->col_begin);
            last = std::max(last, part->col_end);
        }
        const index_t before = (begin - first + kAligned - 1) / kAligned * kAligned;
        windows_.push_back({end - begin, before});
        capacity_ = std::max(capacity_, before + last - begin);
    }
}

template <class T>
std::vector<SymmetricPiece> PieceLayout<T>::in(const std::vector<char*>& memory) const {
    std::vector<SymmetricPiece> pieces;
    for (std::size_t k = 0; k < windows_.size(); ++k) {
        const auto away = static_cast<std::ptrdiff_t>(reinterpret_cast<std::uintptr_t>(memory[k]) -
                                                      reinterpret_cast<std::uintptr_t>(memory[0]));
        const auto before = static_cast<std::ptrdiff_t>(windows_[k].before * sizeof(T));
        pieces.push_back({windows_[k].own, away, away + before});
    }
    return pieces;
}

template <class T>
HaloMap<T>::HaloMap(const Halos<T>& halos, std::vector<SymmetricPiece> of_x, std::vector<SymmetricPiece> of_y,
                    std::vector<Stream> streams, bool is_y_whole)
    : halos_(halos),
      of_x_(std::move(of_x)),
      of_y_(std::move(of_y)),
      streams_(std::move(streams)),
      is_y_whole_(is_y_whole) {
    if (!halos.has_gpus() || streams_.empty()) return;
    for (const Lane& lane : halos.lanes()) {
        const gpu::DeviceGuard guard(lane.device.ordinal);
        pulling_.push_back(lane.has_interior() ? gpu::lease_stream(lane.device.ordinal) : nullptr);
        for (auto* const events : {&made_, &pulled_, &delivered_}) events->emplace_back();
    }
}

template <class T>
index_t HaloMap<T>::dot_parts() const {
    index_t most = 0;
    for (const Lane& lane : halos_.lanes()) most = std::max(most, lane.dots_left().pairs);
    return most;
}

template <class T>
void HaloMap<T>::apply_and_dot(const T* x, T* y, const T* w, Wide<T>* dots, Stream) const {
    Product<T> product{x, y};
    product.dots = dots;
    product.weights = w;
    multiply(product);
}

template <class T>
void HaloMap<T>::multiply(const Product<T>& product) const {
    halos_.has_gpus() ? multiply_on_gpus(product) : multiply_on_cpu(product);
}

template <class T>
Product<T> HaloMap<T>::of_piece(const Product<T>& product, std::size_t lane) const {
    Product<T> own = product;
    own.x = from_zero(own_x(product.x, lane), halos_.lanes()[lane]);
    own.y = own_y(product.y, lane);
    own.x_of_rows = own_x(product.x, lane);
    own.dots = halos_.lanes()[lane].dots_left().pairs > 0 ? of_y_[lane].own(product.dots) : nullptr;
    own.weights = of_y_[lane].own_vector(product.weights);
    return own;
}

template <class T>
void HaloMap<T>::multiply_on_gpus(const Product<T>& product) const {
    const auto& lanes = halos_.lanes();
    for (std::size_t k = 0; k < lanes.size(); ++k) made_[k].record(streams_[k]);
    for (std::size_t k = 0; k < lanes.size(); ++k) {
        const Lane& lane = lanes[k];
        if (lane.part == nullptr) continue;
        const gpu::DeviceGuard guard(lane.device.ordinal);
        const Stream pulling = pulling_[k] ? pulling_[k].get() : streams_[k];
        if (pulling != streams_[k]) made_[k].hold_back(pulling);  // its previous halo may still be in use
        T* const whole_x = from_zero(own_x(product.x, k), lane);
        for (const auto& pull : lane.pulls) {
            made_[pull.from].hold_back(pulling);
            gpu::copy_async(whole_x + pull.begin, pulled_from(product.x, pull), bytes_of(pull), pulling);
        }
        pulled_[k].record(pulling);
        lane.multiply(of_piece(product, k), streams_[k], pulling);
        if (is_y_whole_ && k > 0) deliver_on_gpus(product.y, k);
    }
    for (std::size_t k = 0; k < lanes.size(); ++k) {
        for (const std::size_t reader : lanes[k].read_by) pulled_[reader].hold_back(streams_[k]);
    }
}

template <class T>
void HaloMap<T>::deliver_on_gpus(T* y, std::size_t lane) const {
    const std::size_t bytes = halos_.lanes()[lane].part->row_count() * sizeof(T);
    made_[0].hold_back(streams_[lane]);  // the first GPU may still use the old y
    gpu::copy_async(in_whole_y(y, lane), own_y(y, lane), bytes, streams_[lane]);
    delivered_[lane].record(streams_[lane]);
    delivered_[lane].hold_back(streams_[0]);
}

template <class T>
void HaloMap<T>::multiply_on_cpu(const Product<T>& product) const {
    const auto& lanes = halos_.lanes();
    for (std::size_t k = 0; k < lanes.size(); ++k) {
        if (lanes[k].part == nullptr) continue;
        T* const whole_x = from_zero(own_x(product.x, k), lanes[k]);
        for (const auto& pull : lanes[k].pulls) {
            copy_bytes(whole_x + pull.begin, {}, pulled_from(product.x, pull), {}, bytes_of(pull));
        }
        lanes[k].part->matrix->spmv(of_piece(product, k), nullptr);
        if (!is_y_whole_ || k == 0) continue;
        copy_bytes(in_whole_y(product.y, k), {}, own_y(product.y, k), {}, lanes[k].part->row_count() * sizeof(T));
    }
}

#define INSTANTIATE(T)             \
    template class PieceLayout<T>; \
    template class HaloMap<T>;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
