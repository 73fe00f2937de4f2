#include <algorithm>

#include "gpu/cuda/check.hpp"
#include "gpu/cuda/warp.cuh"
#include "gpu/runtime.hpp"
#include "solvers/preconditioners/single_steps.hpp"

namespace spmvgpu::gpu {

constexpr int kThreads = 256, kBlocksPerProcessor = 8;

template <class T>
__global__ void __launch_bounds__(kThreads) find_exponents(index_t n, const T* x, int* exponents) {
    const T* const from = x + std::int64_t(blockIdx.y) * n;
    __shared__ int of_block;
    if (threadIdx.x == 0) of_block = kNoExponent;
    __syncthreads();
    double largest = 0;
    for (std::int64_t i = std::int64_t(blockIdx.x) * kThreads + threadIdx.x; i < n; i += gridDim.x * kThreads) {
        largest = fmax(largest, largest_part(from[i]));
    }
    for (int lane = kWarp / 2; lane > 0; lane /= 2) largest = fmax(largest, __shfl_xor_sync(~0u, largest, lane));
    if (threadIdx.x % kWarp == 0) atomicMax(&of_block, exponent_of(largest));
    __syncthreads();
    if (threadIdx.x == 0) atomicMax(exponents + blockIdx.y, of_block);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    convert_to_single(index_t n, const T* x, Single<T>* to, const int* exponents) {
    const std::int64_t first = std::int64_t(blockIdx.y) * n;
    const int exponent = exponents[blockIdx.y];
    for (std::int64_t i = std::int64_t(blockIdx.x) * kThreads + threadIdx.x; i < n; i += gridDim.x * kThreads) {
        to[first + i] = single_of(x[first + i], exponent);
    }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    convert_from_single(index_t n, const Single<T>* y, T* to, const int* exponents) {
    const std::int64_t first = std::int64_t(blockIdx.y) * n;
    const int exponent = exponents[blockIdx.y];
    for (std::int64_t i = std::int64_t(blockIdx.x) * kThreads + threadIdx.x; i < n; i += gridDim.x * kThreads) {
        to[first + i] = double_of(y[first + i], exponent);
    }
}

static dim3 blocks_of(index_t n, index_t columns, int ordinal) {
    const unsigned most = kBlocksPerProcessor * properties(ordinal).multiprocessors;
    return {std::clamp<unsigned>(blocks_for(n, kThreads), 1u, most), static_cast<unsigned>(columns)};
}

template <class T>
void to_single(const T* x, const SingleColumns<T>& single, index_t n, index_t columns, int ordinal, Stream stream) {
    const DeviceGuard guard(ordinal);
    const dim3 blocks = blocks_of(n, columns, ordinal);
    constexpr int kBelowAll = 0x80;  // in every byte of a number
    check(cudaMemsetAsync(single.exponents, kBelowAll, columns * sizeof(int), native(stream)), "cudaMemsetAsync");
    find_exponents<<<blocks, kThreads, 0, native(stream)>>>(n, x, single.exponents);
    check_launch("find_exponents");
    convert_to_single<<<blocks, kThreads, 0, native(stream)>>>(n, x, single.x, single.exponents);
    check_launch("convert_to_single");
}

template <class T>
void from_single(const SingleColumns<T>& single, T* y, index_t n, index_t columns, int ordinal, Stream stream) {
    const DeviceGuard guard(ordinal);
    convert_from_single<<<blocks_of(n, columns, ordinal), kThreads, 0, native(stream)>>>(
        n, static_cast<const Single<T>*>(single.y), y, static_cast<const int*>(single.exponents));
    check_launch("convert_from_single");
}

#define INSTANTIATE(T)                                                                         \
    template void to_single(const T*, const SingleColumns<T>&, index_t, index_t, int, Stream); \
    template void from_single(const SingleColumns<T>&, T*, index_t, index_t, int, Stream);
INSTANTIATE(double)
INSTANTIATE(Complex<double>)
#undef INSTANTIATE

}  // namespace spmvgpu::gpu
