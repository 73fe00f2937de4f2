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

    template <class Value, class Body>
    __device__ __forceinline__ index_t add_up(index_t n, const Value& value, const Body& body) const {
        index_t sum = 0;
        for (index_t first = 0; first < n; first += lanes) {
            const index_t i = first + lane(), own = i < n ? value(i) : 0;
            index_t up_to_here = own;
            for (int step = 1; step < lanes; step *= 2) {
                const index_t before = __shfl_up_sync(all(), up_to_here, step, lanes);
                if (lane() >= step) up_to_here += before;
            }
            if (i < n) body(i, sum + up_to_here - own);
            sum += __shfl_sync(all(), up_to_here, lanes - 1, lanes);
        }
        __syncwarp(all());
        return sum;
    }

    template <class Holds>
    __device__ __forceinline__ bool any_of(index_t n, const Holds& holds) const {
        for (index_t first = 0; first < n; first += lanes) {
            const index_t i = first + lane();
            if (any(i < n && holds(i))) return true;
        }
        return false;
    }

    template <class RunOf, class IsOver, class Read, class Body>
    __device__ __forceinline__ void each_of_runs_until(index_t runs, const RunOf& run_of, const IsOver& is_over,
                                                       const Read& read, const Body& body) const {
        read_runs(runs, run_of, is_over, read, [&](const auto& item, index_t) { body(item); });
    }
    template <class RunOf, class Read>
    __device__ __forceinline__ index_t list_runs(index_t runs, const RunOf& run_of, const Read& read,
                                                 index_t* to) const {
        return read_runs(
            runs, run_of, [] { return false; }, read, [&](index_t item, index_t t) { to[t] = item; });
    }

    // Lanes write their numbers to the places of their items. If they all read them again, the places are different;
    // otherwise one run comes after the other.
    using Turn = index_t;
    static constexpr Turn kNoTurn = 0;
    template <class RunOf, class Read, class PlaceOf, class Body>
    __device__ __forceinline__ void each_of_runs_in_turn(index_t runs, const RunOf& run_of, Turn* turns,
                                                         const Read& read, const PlaceOf& place_of,
                                                         const Body& body) const {
        constexpr int kAtOnce = 2;
        some_runs(runs, run_of, [&](index_t count, const auto& entry) {
            for (index_t first = 0; first < count; first += kAtOnce * lanes) {
                decltype(read(0, 0)) items[kAtOnce];
                index_t run[kAtOnce], place[kAtOnce];
#pragma unroll
                for (int j = 0; j < kAtOnce; ++j) {
                    const index_t t = first + j * lanes + lane();
                    const RunEntry found = entry(min(t, count - 1));
                    run[j] = found.run;
                    if (t < count) items[j] = read(found.run, found.entry);
                }
#pragma unroll
                for (int j = 0; j < kAtOnce; ++j) {
                    place[j] = first + j * lanes + lane() < count ? place_of(items[j]) : -1;
                }
#pragma unroll
                for (int j = 0; j < kAtOnce; ++j) {
                    const bool is_here = place[j] >= 0;
                    if (is_here) atomicExch(turns + place[j], lane());
                    __syncwarp(all());
                    const bool is_apart = !is_here || turns[place[j]] == lane();
                    const bool are_apart = !any(!is_apart);
                    const index_t last = are_apart ? 0 : __shfl_sync(all(), run[j], lanes - 1, lanes);
                    for (index_t r = are_apart ? 0 : __shfl_sync(all(), run[j], 0, lanes); r <= last; ++r) {
                        if (is_here && (are_apart || run[j] == r)) body(items[j], place[j]);
                        __syncwarp(all());
                    }
                }
            }
            return true;
        });
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
    static __device__ __forceinline__ bool any(bool own) { return __any_sync(all(), own) != 0; }

    struct RunEntry {
        index_t run, entry;
    };
    // some(count, entry) for as many runs at a time as there are lanes, which have `count` entries, until it returns
    // false; all lanes ask for an entry(t), the t-th of them, at once.
    template <class RunOf, class Some>
    __device__ __forceinline__ void some_runs(index_t runs, const RunOf& run_of, const Some& some) const {
        for (index_t first = 0; first < runs; first += lanes) {
            index_t begin = 0, length = 0;
            if (first + lane() < runs) {
                const Run run = run_of(first + lane());
                begin = run.begin, length = run.end - run.begin;
            }
            index_t end = length;
            for (int step = 1; step < lanes; step *= 2) {
                const index_t before = __shfl_up_sync(all(), end, step, lanes);
                if (lane() >= step) end += before;
            }
            begin -= end - length;
            const bool goes_on = some(__shfl_sync(all(), end, lanes - 1, lanes), [&](index_t t) -> RunEntry {
                index_t at = 0;  // as many runs end before
#pragma unroll
                for (int half = lanes / 2; half > 0; half /= 2) {
                    if (__shfl_sync(all(), end, at + half - 1, lanes) <= t) at += half;
                }
                return {first + at, __shfl_sync(all(), begin, at, lanes) + t};
            });
            if (!goes_on) return;
        }
    }

    // body(item, t) for the t-th entry of all runs, until is_over() holds for a lane; returns how many were read.
    template <class RunOf, class IsOver, class Read, class Body>
    __device__ __forceinline__ index_t read_runs(index_t runs, const RunOf& run_of, const IsOver& is_over,
                                                 const Read& read, const Body& body) const {
        index_t before = 0;
        some_runs(runs, run_of, [&](index_t count, const auto& entry) {
            for (index_t first = 0; first < count; first += kReadAtOnce * lanes) {
                if (any(is_over())) return false;
                decltype(read(0, 0)) items[kReadAtOnce];
#pragma unroll
                for (int j = 0; j < kReadAtOnce; ++j) {
                    const index_t t = first + j * lanes + lane();
                    const RunEntry found = entry(t);
                    if (t < count) items[j] = read(found.run, found.entry);
                }
#pragma unroll
                for (int j = 0; j < kReadAtOnce; ++j) {
                    const index_t t = first + j * lanes + lane();
                    if (t < count) body(items[j], before + t);
                }
            }
            before += count;
            return true;
        });
        __syncwarp(all());
        return before;
    }

    // Numbers by Batcher's bitonic sort. Lane l gets those from l * kEach on.
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
    __device__ __forceinline__ void meet() const { __syncwarp(); }
};

}  // namespace spmvgpu::gpu
