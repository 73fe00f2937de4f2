#include "gpu/gather.hpp"

#include "core/parallel.hpp"

namespace spmvgpu::gpu {

template <class T>
void gather(T* to, const Columns<const T>& from, const index_t* map, index_t length, Device device, Stream stream) {
    if constexpr (kHasCuda) {
        if (device.is_gpu()) return gather_on_gpu(to, from, map, length, device.ordinal, stream);
    }
    parallel_for(length, std::int64_t(length) * from.count, [&](std::int64_t i) {
        const std::int64_t row = (map == nullptr ? i : map[i]) * from.row_stride;
        for (index_t j = 0; j < from.count; ++j) to[i * from.count + j] = from.column(j)[row];
    });
}

template <class T>
void scatter(const Columns<T>& to, const T* from, const index_t* map, index_t length, T beta, Device device,
             Stream stream) {
    if constexpr (kHasCuda) {
        if (device.is_gpu()) return scatter_on_gpu(to, from, map, length, beta, device.ordinal, stream);
    }
    parallel_for(length, std::int64_t(length) * to.count, [&](std::int64_t i) {
        const std::int64_t row = (map == nullptr ? i : map[i]) * to.row_stride;
        for (index_t j = 0; j < to.count; ++j) {
            T& target = to.column(j)[row];
            const T added = from[i * to.count + j];
            target = beta == T(0) ? added : added + scaled(beta, target);
        }
    });
}

template void gather(index_t*, const Columns<const index_t>&, const index_t*, index_t, Device, Stream);
#define INSTANTIATE(T)                                                                          \
    template void gather(T*, const Columns<const T>&, const index_t*, index_t, Device, Stream); \
    template void scatter(const Columns<T>&, const T*, const index_t*, index_t, T, Device, Stream);
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu::gpu
