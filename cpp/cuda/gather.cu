#include "cuda/check.hpp"
#include "cuda/gather.hpp"
#include "cuda/runtime.hpp"
#include "cuda/warp.cuh"

namespace spmvgpu::cuda {

namespace {

constexpr int kBlockSize = 256;

template <class T>
__global__ void gather_thread_per_element(T* __restrict__ to, const T* __restrict__ from,
                                          const index_t* __restrict__ map, index_t count) {
    const std::int64_t i = std::int64_t(blockIdx.x) * kBlockSize + threadIdx.x;
    if (i < count) store(to + i, load(from + map[i]));
}

template <class T>
__global__ void scatter_thread_per_element(T* __restrict__ to, const T* __restrict__ from,
                                           const index_t* __restrict__ map, index_t count, T beta) {
    const std::int64_t i = std::int64_t(blockIdx.x) * kBlockSize + threadIdx.x;
    if (i >= count) return;
    T* const target = to + (map == nullptr ? i : map[i]);
    const T added = load(from + i);
    store(target, beta == T(0) ? added : added + scaled(beta, load(target)));
}

}  // namespace

template <class T>
void gather(T* to, const T* from, const index_t* map, index_t count, int ordinal, Stream stream) {
    if (count == 0) return;
    const DeviceGuard guard(ordinal);
    gather_thread_per_element<<<blocks_for(count, kBlockSize), kBlockSize, 0, native(stream)>>>(to, from, map, count);
    check_launch("gather_thread_per_element");
}

template <class T>
void scatter(T* to, const T* from, const index_t* map, index_t count, T beta, int ordinal, Stream stream) {
    if (count == 0) return;
    const DeviceGuard guard(ordinal);
    scatter_thread_per_element<<<blocks_for(count, kBlockSize), kBlockSize, 0, native(stream)>>>(to, from, map, count,
                                                                                                 beta);
    check_launch("scatter_thread_per_element");
}

template void gather(index_t*, const index_t*, const index_t*, index_t, int, Stream);
#define INSTANTIATE(T)                                                        \
    template void gather(T*, const T*, const index_t*, index_t, int, Stream); \
    template void scatter(T*, const T*, const index_t*, index_t, T, int, Stream);
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)

}  // namespace spmvgpu::cuda
