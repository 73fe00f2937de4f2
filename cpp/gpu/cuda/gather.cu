#include "gpu/cuda/check.hpp"
#include "gpu/cuda/warp.cuh"
#include "gpu/gather.hpp"
#include "gpu/runtime.hpp"

namespace spmvgpu::cuda {

namespace {

template <class T>
__global__ void gather_thread_per_element(T* __restrict__ to, const T* __restrict__ from,
                                          const index_t* __restrict__ map, index_t count, std::int64_t stride) {
    const std::int64_t i = std::int64_t(blockIdx.x) * kBlockSize + threadIdx.x;
    if (i < count) store(to + i, load(from + (map == nullptr ? i : map[i]) * stride));
}

template <class T>
__global__ void scatter_thread_per_element(T* __restrict__ to, const T* __restrict__ from,
                                           const index_t* __restrict__ map, index_t count, T beta,
                                           std::int64_t stride) {
    const std::int64_t i = std::int64_t(blockIdx.x) * kBlockSize + threadIdx.x;
    if (i >= count) return;
    T* const target = to + (map == nullptr ? i : map[i]) * stride;
    const T added = load(from + i);
    store(target, beta == T(0) ? added : added + scaled(beta, load(target)));
}

}  // namespace

template <class T>
void gather(T* to, const T* from, const index_t* map, index_t count, int ordinal, Stream stream, std::int64_t stride) {
    if (count == 0) return;
    const DeviceGuard guard(ordinal);
    gather_thread_per_element<<<blocks_for(count, kBlockSize), kBlockSize, 0, native(stream)>>>(to, from, map, count,
                                                                                                stride);
    check_launch("gather_thread_per_element");
}

template <class T>
void scatter(T* to, const T* from, const index_t* map, index_t count, T beta, int ordinal, Stream stream,
             std::int64_t stride) {
    if (count == 0) return;
    const DeviceGuard guard(ordinal);
    scatter_thread_per_element<<<blocks_for(count, kBlockSize), kBlockSize, 0, native(stream)>>>(to, from, map, count,
                                                                                                 beta, stride);
    check_launch("scatter_thread_per_element");
}

template void gather(index_t*, const index_t*, const index_t*, index_t, int, Stream, std::int64_t);
#define INSTANTIATE(T)                                                                      \
    template void gather(T*, const T*, const index_t*, index_t, int, Stream, std::int64_t); \
    template void scatter(T*, const T*, const index_t*, index_t, T, int, Stream, std::int64_t);
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu::cuda
