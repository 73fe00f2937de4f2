#include "matrix/index_map.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "core/host_vector.hpp"
#include "core/parallel.hpp"
#include "cuda/gather.hpp"

namespace spmvgpu {

Places Places::from(const HostVector<index_t>& places) {
    const auto count = static_cast<std::int64_t>(places.size());
    Places result;
    if (count == 0) return result;
    result.first = places[0];
    for (std::int64_t i = 0; i < count; ++i) {
        if (places[i] != result.first + i) return {0, Array<index_t>::from(places)};
    }
    return result;
}

void check_places(const char* what, const Places& places, index_t count, index_t limit) {
    if (places.scattered() && places.map.size() != static_cast<std::size_t>(count)) {
        throw std::invalid_argument("a part has " + std::to_string(count) + " " + what + ", but " +
                                    std::to_string(places.map.size()) + " places for them");
    }
    bool inside = places.scattered() || (places.first >= 0 && places.first <= limit && count <= limit - places.first);
    for (const index_t place : places.map) inside = inside && place >= 0 && place < limit;
    if (!inside) {
        throw std::invalid_argument("a part's " + std::string(what) + " reach beyond the " + std::to_string(limit) +
                                    " of the matrix");
    }
}

void RowCheck::add(const Places& places, index_t count) {
    for (index_t i = 0; i < count; ++i) {
        if (taken_[places[i]]) throw std::invalid_argument("row " + std::to_string(places[i]) + " lies in two parts");
        taken_[places[i]] = true;
    }
}

void RowCheck::finish() const {
    const auto missing = std::find(taken_.begin(), taken_.end(), false);
    if (missing != taken_.end()) {
        throw std::invalid_argument("row " + std::to_string(missing - taken_.begin()) + " lies in no part");
    }
}

template <class T>
void gather(T* to, const T* from, const Array<index_t>& places, Stream stream) {
    const auto count = static_cast<index_t>(places.size());
    const Device device = places.device();
    if (device.is_cuda()) return cuda::gather(to, from, places.data(), count, device.ordinal, stream);
    parallel_for(count, count, [&](index_t i) { to[i] = from[places[i]]; });
}

template <class T>
void scatter_on_host(T* y, const T* from, const Places& places, index_t count, T beta) {
    parallel_for(count, count, [&](index_t i) {
        T& target = y[places[i]];
        target = beta == T(0) ? from[i] : from[i] + beta * target;
    });
}

template void gather(index_t*, const index_t*, const Array<index_t>&, Stream);
template void gather(float*, const float*, const Array<index_t>&, Stream);
template void gather(double*, const double*, const Array<index_t>&, Stream);
template void scatter_on_host(float*, const float*, const Places&, index_t, float);
template void scatter_on_host(double*, const double*, const Places&, index_t, double);

}  // namespace spmvgpu
