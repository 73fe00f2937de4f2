#include "matrix/index_map.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <stdexcept>
#include <string>

#include "core/host_vector.hpp"
#include "core/parallel.hpp"
#include "core/passes/passes.hpp"
#include "gpu/gather.hpp"

namespace spmvgpu {

IndexMap IndexMap::from(const index_t* indices, std::size_t count) {
    IndexMap result;
    if (count == 0) return result;
    result.first = indices[0];
    for (std::size_t i = 0; i < count; ++i) {
        if (indices[i] == result.first + static_cast<std::int64_t>(i)) continue;
        return {0, Array<index_t>::view(indices, count).to({})};
    }
    return result;
}

void check_index_map(const char* what, const IndexMap& map, index_t count, index_t limit) {
    if (map.scattered() && map.indices.size() != static_cast<std::size_t>(count)) {
        throw std::invalid_argument("a part has " + std::to_string(count) + " " + what + ", but " +
                                    std::to_string(map.indices.size()) + " indices for them");
    }
    bool inside = map.scattered() || (map.first >= 0 && map.first <= limit && count <= limit - map.first);
    if (map.scattered()) {
        inside =
            parallel_sum<std::int64_t>(count, count, [&](std::int64_t begin, std::int64_t end) {
                const auto is_outside = [limit](index_t index) { return index < 0 || index >= limit; };
                return std::int64_t(std::count_if(map.indices.data() + begin, map.indices.data() + end, is_outside));
            }) == 0;
    }
    if (!inside) {
        throw std::invalid_argument("a part's " + std::string(what) + " reach beyond the " + std::to_string(limit) +
                                    " of the matrix");
    }
}

void RowCheck::add(const IndexMap& map, index_t count) {
    constexpr index_t kNone = std::numeric_limits<index_t>::max();
    index_t twice = kNone;
    parallel_for(count, count, [&](std::int64_t i) {
        const std::atomic_ref<std::uint8_t> taken(taken_[map[static_cast<index_t>(i)]]);
        if (taken.exchange(1, std::memory_order_relaxed) != 0) lower(&twice, map[static_cast<index_t>(i)]);
    });
    if (twice != kNone) throw std::invalid_argument("row " + std::to_string(twice) + " lies in two parts");
}

void RowCheck::finish() const {
    const auto missing = std::find(taken_.begin(), taken_.end(), 0);
    if (missing != taken_.end()) {
        throw std::invalid_argument("row " + std::to_string(missing - taken_.begin()) + " lies in no part");
    }
}

template <class T>
void gather(T* to, const T* from, const Array<index_t>& map, Stream stream) {
    const auto count = static_cast<index_t>(map.size());
    const Device device = map.device();
    if (device.is_cuda()) return cuda::gather(to, from, map.data(), count, device.ordinal, stream);
    parallel_for(count, count, [&](index_t i) { to[i] = from[map[i]]; });
}

template <class T>
void scatter_on_host(T* y, const T* from, const IndexMap& map, index_t count, T beta) {
    parallel_for(count, count, [&](index_t i) {
        T& target = y[map[i]];
        target = beta == T(0) ? from[i] : from[i] + scaled(beta, target);
    });
}

template void gather(index_t*, const index_t*, const Array<index_t>&, Stream);
#define INSTANTIATE(T)                                                 \
    template void gather(T*, const T*, const Array<index_t>&, Stream); \
    template void scatter_on_host(T*, const T*, const IndexMap&, index_t, T);
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
