// Building blocks of the kernels: loads, reductions within a warp and a block, and the store of a row's result.
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

#include "core/types.hpp"

namespace spmvgpu::cuda {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

// A load of matrix data, which is read once: it leaves the L1 to x.
template <class T>
__device__ __forceinline__ T load_once(const T* pointer) {
    return __ldcs(pointer);
}

// Sum of the products of the slots begin, begin + stride, ... below end. kInFlight slots are loaded before the first is
// used, also at the end of a row, where a plain unrolled loop would go one by one. Slots with a negative column are
// padding. Position is a type in which end + kInFlight * stride does not overflow: unsigned, where the stride is short.
template <int kInFlight, class Position = unsigned, class T>
__device__ __forceinline__ T sum_strided(const index_t* __restrict__ col_indices, const T* __restrict__ values,
                                         const T* x, std::type_identity_t<Position> begin,
                                         std::type_identity_t<Position> end, std::type_identity_t<Position> stride) {
    T sum = 0;
    for (Position k = begin; k < end; k += kInFlight * stride) {
        index_t cols[kInFlight];
        T factors[kInFlight], gathered[kInFlight];
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) {
            const bool valid = k + i * stride < end;
            cols[i] = valid ? load_once(col_indices + k + i * stride) : -1;
            factors[i] = valid ? load_once(values + k + i * stride) : T(0);
        }
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) gathered[i] = cols[i] >= 0 ? x[cols[i]] : T(0);
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) sum += factors[i] * gathered[i];
    }
    return sum;
}

// Sum over groups of `lanes` neighbouring lanes (a power of two), left in each group's first lane. All lanes must call.
template <class T>
__device__ __forceinline__ T sum_lanes(T value, int lanes) {
    for (int offset = lanes / 2; offset > 0; offset /= 2) value += __shfl_down_sync(kAllLanes, value, offset);
    return value;
}

// The same through shared memory, as on GPUs without shuffles (Yin 2012, table III). `sums` has a slot per thread.
template <class T>
__device__ __forceinline__ T sum_lanes_shared(T* sums, T value, int lanes) {
    const int lane = threadIdx.x % lanes;
    sums[threadIdx.x] = value;
    for (int offset = lanes / 2; offset > 0; offset /= 2) {
        __syncwarp();
        const T other = lane < offset ? sums[threadIdx.x + offset] : T(0);
        __syncwarp();
        sums[threadIdx.x] = value += other;
    }
    return value;
}

// Sum over a block of kThreads threads, valid in thread 0. All threads must call.
template <class T, int kThreads>
__device__ __forceinline__ T sum_block(T value) {
    __shared__ T warp_sums[kThreads / kWarp];
    value = sum_lanes(value, kWarp);
    if (threadIdx.x % kWarp == 0) warp_sums[threadIdx.x / kWarp] = value;
    __syncthreads();
    if (threadIdx.x < kWarp) {
        value = threadIdx.x < kThreads / kWarp ? warp_sums[threadIdx.x] : T(0);
        value = sum_lanes(value, kWarp);
    }
    return value;
}

// y[row] = alpha * sum + beta * y[row], without reading y where beta is zero.
template <class T>
__device__ __forceinline__ void store_row(const Product<T>& product, index_t row, T sum) {
    const T scaled = product.alpha * sum;
    T& y = product.y[product.row_of_y(row)];
    y = product.beta == T(0) ? scaled : scaled + product.beta * y;
}

inline unsigned blocks_for(std::int64_t items, int per_block) {
    return static_cast<unsigned>((items + per_block - 1) / per_block);
}

}  // namespace spmvgpu::cuda
