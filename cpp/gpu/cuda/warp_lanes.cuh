// The lanes of core/passes/lanes.hpp on a GPU: the threads of a warp.
#pragma once

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
struct SomeLanes {
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
    // In a run of some hundred, each number goes to the position given by the count of smaller ones. Pairs of runs are
    // merged from there on, an even number of times, so that the last goes to `to`.
    __device__ __forceinline__ void sort(index_t n, index_t* from, index_t* to) const {
        constexpr index_t kRun = 256;
        index_t run = kRun;
        int merges = 0;
        for (std::int64_t merged = run; merged < n; merged *= 2) ++merges;
        if (merges % 2 != 0) run *= 2;
        for (index_t i = lane(); i < n; i += lanes) {
            const index_t own = from[i], begin = i / run * run, end = min(n - begin, run) + begin;
            index_t smaller = 0;
            for (index_t other = begin; other < end; ++other) smaller += from[other] < own;
            to[begin + smaller] = own;
        }
        __syncwarp(all());
        for (std::int64_t merged = run; merged < n; merged *= 2) {
            index_t* const source = to;
            to = from, from = source;
            for (index_t i = lane(); i < n; i += lanes) {
                const index_t own = source[i];
                const std::int64_t begin = i / merged * merged, pair = begin / (2 * merged) * (2 * merged);
                const std::int64_t other = begin == pair ? begin + merged : pair;
                const std::int64_t last = min(std::int64_t(n), other + merged), first = min(last, other);
                to[pair + (i - begin) + (first_above(source, first, last, own) - first)] = own;
            }
            __syncwarp(all());
        }
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
