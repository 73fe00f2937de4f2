// The lanes of core/passes/lanes.hpp on a GPU: the threads of a warp.
#pragma once

#include <cstdint>
#include <limits>

#include "core/passes/lanes.hpp"
#include "gpu/cuda/warp.cuh"

namespace spmvgpu::gpu {

// The largest number of a warp's lanes, in one instruction from Ampere on.
static __device__ __forceinline__ index_t largest_in_warp(index_t own) {
#if __CUDA_ARCH__ >= 800
    return __reduce_max_sync(kAllLanes, own);
#else
    for (int mask = kWarp / 2; mask > 0; mask /= 2) own = max(own, __shfl_xor_sync(kAllLanes, own, mask));
    return own;
#endif
}
static __device__ __forceinline__ index_t least_in_warp(index_t own) {
#if __CUDA_ARCH__ >= 800
    return __reduce_min_sync(kAllLanes, own);
#else
    return ~largest_in_warp(~own);  // complements are in the reverse order
#endif
}

// Neighbouring lanes that call the same functions. Other lanes of the warp may be at another place of the text.
template <int lanes>
class SomeLanes {
public:
    static constexpr int kCount = lanes;

    static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x % lanes); }
    static __device__ __forceinline__ unsigned all() {
        if constexpr (lanes == kWarp) return kAllLanes;
        return ((1u << lanes % kWarp) - 1) << threadIdx.x % kWarp / lanes * lanes;
    }

    __device__ __forceinline__ std::uint64_t sum(unsigned long long own) const {
        for (int mask = lanes / 2; mask > 0; mask /= 2) own += __shfl_xor_sync(all(), own, mask);
        return own;
    }
    template <class V, class Value>
    __device__ __forceinline__ V total(index_t n, const Value& value) const {
        static_assert(lanes == kFewLanes && sizeof(V) % sizeof(unsigned) == 0);
        V own(0);
        for (index_t i = lane(); i < n; i += lanes) own += value(i);
        for (int mask = lanes / 2; mask > 0; mask /= 2) {
            V other = own;
            auto* const words = reinterpret_cast<unsigned*>(&other);
            for (unsigned i = 0; i < sizeof(V) / sizeof(unsigned); ++i) {
                words[i] = __shfl_xor_sync(all(), words[i], mask);
            }
            own += other;
        }
        return own;
    }
    template <class Body>
    __device__ __forceinline__ void once(const Body& body) const {
        if (lane() == 0) body();
    }
    template <class Body>
    __device__ __forceinline__ void share(index_t n, const Body& body) const {
        for (index_t i = lane(); i < n; i += lanes) body(i);
        __syncwarp(all());
    }
    // In registers as far as they hold the numbers, and otherwise in runs that are merged.
    __device__ __forceinline__ void sort(index_t n, index_t* from, index_t* spare, index_t* to) const {
        constexpr int kSmall = 2, kLarge = lanes == kWarp ? 16 : 8;  // numbers of a lane
        if (n <= kSmall * lanes) return sort_in_registers<kSmall>(n, from, to);
        if (n <= kLarge * lanes) return sort_in_registers<kLarge>(n, from, to);
        constexpr index_t kRun = kLarge * lanes;
        for (index_t first = 0; first < n; first += kRun) {
            sort_in_registers<kLarge>(min(kRun, n - first), from + first, spare + first);
        }
        index_t *source = spare, *target = from;
        for (std::int64_t run = kRun; run < n; run *= 2) {
            if (2 * run >= n) target = to;
            for (std::int64_t first = 0; first < n; first += 2 * run) {
                const auto middle = static_cast<index_t>(min(std::int64_t(n), first + run));
                const auto end = static_cast<index_t>(min(std::int64_t(n), first + 2 * run));
                merge(source + first, middle - static_cast<index_t>(first), source + middle, end - middle,
                      target + first);
            }
            __syncwarp(all());
            index_t* const other = source;
            source = target, target = other;
        }
    }

private:
    // Different numbers by Batcher's bitonic sort. Lane l gets those from l * kEach on.
    template <int kEach>
    __device__ __forceinline__ void sort_in_registers(index_t n, const index_t* from, index_t* to) const {
        index_t own[kEach];
#pragma unroll
        for (int e = 0; e < kEach; ++e) {
            const index_t i = e * lanes + lane();
            own[e] = i < n ? from[i] : std::numeric_limits<index_t>::max();
        }
        const auto order = [](index_t& a, index_t& b) {
            const index_t less = min(a, b);
            b = max(a, b), a = less;
        };
#pragma unroll
        for (int size = 2; size <= lanes * kEach; size *= 2) {
            // The first half of `size` numbers with the second one in the reverse order.
            if (size <= kEach) {
#pragma unroll
                for (int e = 0; e < kEach; ++e) {
                    if (e < (e ^ (size - 1))) order(own[e], own[e ^ (size - 1)]);
                }
            } else {
                const int mask = size / kEach - 1;
                const bool is_first = (lane() & size / kEach / 2) == 0;
#pragma unroll
                for (int e = 0; e < (kEach + 1) / 2; ++e) {
                    index_t &a = own[e], &b = own[kEach - 1 - e];
                    const index_t for_b = __shfl_xor_sync(all(), a, mask), for_a = __shfl_xor_sync(all(), b, mask);
                    a = is_first ? min(a, for_a) : max(a, for_a);
                    b = is_first ? min(b, for_b) : max(b, for_b);
                }
            }
#pragma unroll
            for (int half = size / 4; half > 0; half /= 2) {
                if (half < kEach) {
#pragma unroll
                    for (int e = 0; e < kEach; ++e) {
                        if ((e & half) == 0) order(own[e], own[e | half]);
                    }
                } else {
                    const bool is_first = (lane() & half / kEach) == 0;
#pragma unroll
                    for (int e = 0; e < kEach; ++e) {
                        const index_t other = __shfl_xor_sync(all(), own[e], half / kEach);
                        own[e] = is_first ? min(own[e], other) : max(own[e], other);
                    }
                }
            }
        }
#pragma unroll
        for (int e = 0; e < kEach; ++e) {
            const index_t i = lane() * kEach + e;
            if (i < n) to[i] = own[e];
        }
        __syncwarp(all());
    }

    // Each lane merges a stretch of the result (Green, Odeh and Birk, "Merge path", 2014), of an odd length, so that
    // lanes use different banks of shared memory.
    __device__ __forceinline__ void merge(const index_t* a, index_t a_count, const index_t* b, index_t b_count,
                                          index_t* to) const {
        const index_t n = a_count + b_count, each = (n + lanes - 1) / lanes | 1;
        index_t at = min(n, lane() * each);
        const index_t end = min(n, at + each);
        index_t i = max(0, at - b_count), most = min(at, a_count);  // bounds of how many of the first `at` are in a
        while (i < most) {
            const index_t middle = i + (most - i) / 2;
            if (a[middle] < b[at - middle - 1]) {
                i = middle + 1;
            } else {
                most = middle;
            }
        }
        index_t j = at - i;
        for (; at < end; ++at) to[at] = j >= b_count || (i < a_count && a[i] < b[j]) ? a[i++] : b[j++];
    }
};

using FewLanes = SomeLanes<kFewLanes>;

struct WarpLanes : SomeLanes<kWarp> {
    template <class T>
    struct PerLane {
        T value;
        __device__ __forceinline__ T& operator[](int) { return value; }
        __device__ __forceinline__ const T& operator[](int) const { return value; }
    };

    template <class Body>
    __device__ __forceinline__ void each(const Body& body) const {
        body(lane());
    }
    template <class Holds>
    __device__ __forceinline__ Word those(const Holds& holds) const {
        return __ballot_sync(kAllLanes, holds(lane()));
    }
    template <class Value>
    __device__ __forceinline__ index_t least(const Value& value) const {
        return least_in_warp(value(lane()));
    }
    template <class Value>
    __device__ __forceinline__ index_t largest(const Value& value) const {
        return largest_in_warp(value(lane()));
    }
    template <class Value>
    __device__ __forceinline__ auto of(int from, const Value& value) const {
        auto found = value(lane());
        static_assert(sizeof(found) % sizeof(unsigned) == 0);
        auto* const words = reinterpret_cast<unsigned*>(&found);
        for (unsigned i = 0; i < sizeof(found) / sizeof(unsigned); ++i) {
            words[i] = __shfl_sync(kAllLanes, words[i], from);
        }
        return found;
    }
    template <class Value>
    __device__ __forceinline__ index_t least_of(index_t n, const Value& value, index_t none) const {
        index_t found = none;
        for (index_t i = lane(); i < n; i += kWarp) {
            const index_t own = value(i);
            if (own < found) found = own;
        }
        return least_in_warp(found);
    }
    template <class Value>
    __device__ __forceinline__ index_t largest_of(index_t n, const Value& value, index_t none) const {
        index_t found = none;
        for (index_t i = lane(); i < n; i += kWarp) {
            const index_t own = value(i);
            if (own > found) found = own;
        }
        return largest_in_warp(found);
    }
    template <class Value, class Body>
    __device__ __forceinline__ index_t add_up(index_t n, const Value& value, const Body& body) const {
        index_t sum = 0;
        for (index_t first = 0; first < n; first += kWarp) {
            const index_t i = first + lane(), own = i < n ? value(i) : 0;
            index_t up_to_here = own;
            for (int step = 1; step < kWarp; step *= 2) {
                const index_t before = __shfl_up_sync(kAllLanes, up_to_here, step);
                if (lane() >= step) up_to_here += before;
            }
            if (i < n) body(i, sum + up_to_here - own);
            sum += __shfl_sync(kAllLanes, up_to_here, kWarp - 1);
        }
        __syncwarp();
        return sum;
    }
    __device__ __forceinline__ void meet() const { __syncwarp(); }
};

}  // namespace spmvgpu::gpu
