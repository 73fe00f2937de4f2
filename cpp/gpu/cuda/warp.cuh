// Building blocks of the kernels: loads, reductions within a warp and a block, and the store of a row's result.
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

#include "core/types.hpp"
#include "gpu/cuda/keeping.cuh"
#include "gpu/cuda/overlap.cuh"

namespace spmvgpu::gpu {

constexpr int kWarp = 32;
constexpr int kBlockSize = 256;  // threads of a block by default: Yin 2012, section 5.1 (5)
constexpr unsigned kAllLanes = 0xffffffffu;

// A load of matrix data, which is read once: it leaves the L1 to x.
template <class T>
__device__ __forceinline__ T load_once(const T* pointer) {
    return __ldcs(pointer);
}

// A load past the L1, for values that another block has just written.
template <class T>
__device__ __forceinline__ T load_shared_result(const T* pointer) {
    return __ldcg(pointer);
}

// A load and a store of a whole value. A complex one is one access of both parts, for which its address must be a
// multiple of its size.
template <class T>
__device__ __forceinline__ T load(const T* pointer) {
    return *pointer;
}
template <class T>
__device__ __forceinline__ void store(T* pointer, std::type_identity_t<T> value) {
    *pointer = value;
}

template <class Real>
using Pair = std::conditional_t<sizeof(Real) == 4, float2, double2>;
template <class Real>
__device__ __forceinline__ Complex<Real> from_pair(Pair<Real> pair) {
    return {pair.x, pair.y};
}
template <class Real>
__device__ __forceinline__ Complex<Real> load_once(const Complex<Real>* pointer) {
    return from_pair<Real>(__ldcs(reinterpret_cast<const Pair<Real>*>(pointer)));
}
template <class Real>
__device__ __forceinline__ Complex<Real> load_shared_result(const Complex<Real>* pointer) {
    return from_pair<Real>(__ldcg(reinterpret_cast<const Pair<Real>*>(pointer)));
}
template <class Real>
__device__ __forceinline__ Complex<Real> load(const Complex<Real>* pointer) {
    return from_pair<Real>(*reinterpret_cast<const Pair<Real>*>(pointer));
}
template <class Real>
__device__ __forceinline__ void store(Complex<Real>* pointer, std::type_identity_t<Complex<Real>> value) {
    *reinterpret_cast<Pair<Real>*>(pointer) = {value.real, value.imag};
}

template <class T>
__device__ __forceinline__ void add_to(T* pointer, std::type_identity_t<T> value) {
    T sum = load(pointer);
    store(pointer, sum += value);
}

// The shuffles of CUDA, also for complex values, part by part.
template <class T, class Shuffle>
__device__ __forceinline__ T shuffle_parts(T value, const Shuffle& shuffle) {
    if constexpr (kIsComplex<T>) {
        return {shuffle(value.real), shuffle(value.imag)};
    } else {
        return shuffle(value);
    }
}
template <class T>
__device__ __forceinline__ T shuffle_down(T value, int offset) {
    return shuffle_parts(value, [offset](auto part) { return __shfl_down_sync(kAllLanes, part, offset); });
}
template <class T>
__device__ __forceinline__ T shuffle_up(T value, int offset) {
    return shuffle_parts(value, [offset](auto part) { return __shfl_up_sync(kAllLanes, part, offset); });
}
template <class T>
__device__ __forceinline__ T shuffle_xor(T value, int mask) {
    return shuffle_parts(value, [mask](auto part) { return __shfl_xor_sync(kAllLanes, part, mask); });
}
template <class T>
__device__ __forceinline__ T shuffle_from(T value, int lane) {
    return shuffle_parts(value, [lane](auto part) { return __shfl_sync(kAllLanes, part, lane); });
}

// Sum of the products of the slots begin, begin + stride, ... below end. kInFlight slots are loaded before the first is
// used, also at the end of a row, where a plain unrolled loop would go one by one. Slots with a negative column are
// padding. The kernel before may write x. Position is a type in which end + kInFlight * stride does not overflow:
// unsigned, if the stride is short.
template <int kInFlight, class Position = unsigned, class T>
__device__ __forceinline__ T sum_strided(const index_t* __restrict__ col_indices, const T* __restrict__ values,
                                         const Product<T>& product, std::type_identity_t<Position> begin,
                                         std::type_identity_t<Position> end, std::type_identity_t<Position> stride) {
    const Keeping keeping(product.policy);
    T sum = 0;
    for (Position k = begin; k < end; k += kInFlight * stride) {
        index_t cols[kInFlight];
        T factors[kInFlight], gathered[kInFlight];
        const index_t* const first_col = computed_once(col_indices + k);
        const T* const first_value = computed_once(values + k);
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) {
            cols[i] = k + i * stride < end ? keeping.load_once(first_col + i * stride) : -1;
        }
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) {
            factors[i] = k + i * stride < end ? keeping.load_once(first_value + i * stride) : T(0);
        }
        if (k == begin) wait_for_kernel_before();
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) gathered[i] = cols[i] >= 0 ? load(product.x + cols[i]) : T(0);
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) sum += factors[i] * gathered[i];
    }
    return sum;
}

// Sum over groups of `lanes` neighbouring lanes (a power of two), left in each group's first lane. All lanes must call.
template <class T>
__device__ __forceinline__ T sum_lanes(T value, int lanes) {
    for (int offset = lanes / 2; offset > 0; offset /= 2) value += shuffle_down(value, offset);
    return value;
}

// Sums over all lanes of kCount numbers of each, a power of two: lane i gets the (i * kCount / 32)-th. Lanes that
// differ in kMask exchange halves of their numbers, so that a sum costs a shuffle or two and not five. All lanes must
// call.
template <int kMask = kWarp / 2, int kCount, class T>
__device__ __forceinline__ T sum_lanes_each(const T (&values)[kCount]) {
    if constexpr (kCount > 1) {
        const bool is_upper = (threadIdx.x & kMask) != 0;
        T kept[kCount / 2];
#pragma unroll
        for (int k = 0; k < kCount / 2; ++k) {
            const T lower = values[k], upper = values[k + kCount / 2];
            kept[k] = (is_upper ? upper : lower) + shuffle_xor(is_upper ? lower : upper, kMask);
        }
        return sum_lanes_each<kMask / 2>(kept);
    } else {
        T sum = values[0];
#pragma unroll
        for (int mask = kMask; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
        return sum;
    }
}

// An array of a thread block in shared memory, in which whole values can be loaded and stored at once. A kernel has a
// fixed amount of it, which is limited to 48 KB, unless its launch asks for more: a large array is in dynamic memory,
// of size dynamic_bytes(), of which a kernel has one at most.
template <class T, int kCount>
constexpr int dynamic_bytes() {
    constexpr int kMostFixed = 40 << 10;
    return sizeof(T) * kCount > kMostFixed ? sizeof(T) * kCount : 0;
}
template <class T, int kCount>
__device__ __forceinline__ T* shared_array() {
    if constexpr (dynamic_bytes<T, kCount>() > 0) {
        extern __shared__ double2 dynamic_memory[];  // aligned for every T
        return reinterpret_cast<T*>(dynamic_memory);
    } else {
        __shared__ alignas(sizeof(T)) T array[kCount];
        return array;
    }
}

// As sum_lanes(), through shared memory, as on GPUs without shuffles (Yin 2012, table III). `sums`: a slot per thread.
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
        value = sum_lanes(value, kThreads / kWarp);
    }
    return value;
}

// y[row] = alpha * sum + beta * y[row], without reading y where beta is zero.
template <class T>
__device__ __forceinline__ void store_row(const Product<T>& product, index_t row, T sum) {
    const T scaled_sum = scaled(product.alpha, sum);
    T* const y = product.y + product.row_of_y(row);
    store(y, product.beta == T(0) ? scaled_sum : scaled_sum + scaled(product.beta, load(y)));
}

// A row's part of Product::dots.
template <class T>
struct DotParts {
    Wide<T> xy{}, ywy{};

    __device__ __forceinline__ void add(const Product<T>& product, std::int64_t row, T y) {
        xy += dot(load(product.x_of_rows + row), y);
        ywy += dot(y, product.weights == nullptr ? y : T(load(product.weights + row) * y));
    }
    // Leaves the parts of all lanes of the warp, by its first one.
    __device__ __forceinline__ void leave(const Product<T>& product, std::int64_t warp, bool has_rows) {
        xy = sum_lanes(xy, kWarp);
        ywy = sum_lanes(ywy, kWarp);
        if (threadIdx.x % kWarp != 0 || !has_rows) return;
        product.dots[2 * warp] = xy;
        product.dots[2 * warp + 1] = ywy;
    }
};

// store_row() by all threads of a grid, the i-th for row i. If inner products are wanted, every warp leaves the ones of
// its rows.
template <class T>
__device__ __forceinline__ void store_rows(const Product<T>& product, std::int64_t row, index_t rows, T sum) {
    if (row < rows) store_row(product, static_cast<index_t>(row), sum);
    if (product.dots == nullptr) return;
    DotParts<T> parts;
    if (row < rows) parts.add(product, row, sum);
    parts.leave(product, row / kWarp, row < rows);
}

inline unsigned blocks_for(std::int64_t items, int per_block) {
    return static_cast<unsigned>((items + per_block - 1) / per_block);
}

}  // namespace spmvgpu::gpu
