// The threads of a block as lanes (core/passes/lanes.hpp), for work that is long for a warp.
#pragma once

#include "core/passes/lanes.hpp"
#include "core/passes/passes.hpp"
#include "gpu/cuda/distinct.cuh"
#include "gpu/cuda/warp.cuh"

namespace spmvgpu::gpu {

// The numbers, none negative, of the threads of a block before each one, combined; 0 for the first thread.
template <class Combine>
__device__ __forceinline__ index_t combined_before(index_t own, const Combine& combine) {
    __shared__ index_t of_warps[kPassThreads / kWarp];
    const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
    for (int step = 1; step < kWarp; step *= 2) {
        const index_t other = __shfl_up_sync(kAllLanes, own, step);
        if (lane >= step) own = combine(own, other);
    }
    if (lane == kWarp - 1) of_warps[warp] = own;
    index_t before = __shfl_up_sync(kAllLanes, own, 1);
    if (lane == 0) before = 0;
    __syncthreads();
    for (int w = 0; w < warp; ++w) before = combine(before, of_warps[w]);
    return before;
}

struct BlockLanes {
    static constexpr int kCount = kPassThreads;

    static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x); }

    template <class Body>
    __device__ __forceinline__ void share(index_t n, const Body& body) const {
        for (index_t i = lane(); i < n; i += kCount) body(i);
        __syncthreads();
    }
    // Each lane has a stretch of neighbours, of an odd length, so that lanes use different banks of shared memory.
    template <class Value, class Body>
    __device__ __forceinline__ index_t add_up(index_t n, const Value& value, const Body& body) const {
        __shared__ index_t all;
        const index_t each = (n + kCount - 1) / kCount | 1;
        const index_t begin = min(n, lane() * each), end = min(n, begin + each);
        index_t sum = 0;
        for (index_t i = begin; i < end; ++i) sum += value(i);
        index_t before = sum_before(sum);
        if (lane() == kCount - 1) all = before + sum;
        for (index_t i = begin; i < end; ++i) {
            body(i, before);
            before += value(i);
        }
        __syncthreads();
        return all;
    }

    template <class RunOf, class Read, class Body>
    __device__ __forceinline__ void each_of_runs(index_t runs, const RunOf& run_of, const Read& read,
                                                 const Body& body) const {
        some_runs(runs, run_of, [&](index_t count, const auto& entry) {
            for (index_t first = lane(); first < count; first += kReadAtOnce * kCount) {
                decltype(read(0, 0)) items[kReadAtOnce];
#pragma unroll
                for (int j = 0; j < kReadAtOnce; ++j) {
                    if (first + j * kCount >= count) continue;
                    const RunEntry found = entry(first + j * kCount);
                    items[j] = read(found.run, found.entry);
                }
#pragma unroll
                for (int j = 0; j < kReadAtOnce; ++j) {
                    if (first + j * kCount < count) body(items[j]);
                }
            }
        });
    }

    // The turns of a round are less than all earlier ones, so that none is taken back.
    using Turn = index_t;
    static constexpr Turn kNoTurn = kCount;
    template <class RunOf, class Read, class PlaceOf, class Body>
    __device__ __forceinline__ void each_of_runs_in_turn(index_t runs, const RunOf& run_of, Turn* turns,
                                                         const Read& read, const PlaceOf& place_of,
                                                         const Body& body) const {
        index_t turn = lane();
        some_runs(runs, run_of, [&](index_t count, const auto& entry) {
            for (index_t first = 0; first < count; first += kCount) {
                const index_t t = first + lane();
                decltype(read(0, 0)) item;
                index_t place = -1;
                if (t < count) {
                    const RunEntry found = entry(t);
                    item = read(found.run, found.entry);
                    place = place_of(item);
                }
                bool waits = place >= 0;
                do {
                    if (waits) atomicMin(turns + place, turn);
                    __syncthreads();
                    if (waits && turns[place] == turn) {
                        body(item, place);
                        waits = false;
                    }
                    turn -= kCount;
                } while (__syncthreads_or(waits) != 0);
            }
        });
    }

private:
    struct RunEntry {
        index_t run, entry;
    };

    // The sum of the numbers of the lanes before each one.
    static __device__ __forceinline__ index_t sum_before(index_t own) {
        return combined_before(own, [](index_t a, index_t b) { return a + b; });
    }

    // some(count, entry) for as many runs at a time as there are lanes, which have `count` entries; entry(t) is the
    // t-th of them.
    template <class RunOf, class Some>
    __device__ __forceinline__ void some_runs(index_t runs, const RunOf& run_of, const Some& some) const {
        __shared__ index_t ends[kCount], begins[kCount];
        for (index_t first = 0; first < runs; first += kCount) {
            index_t begin = 0, length = 0;
            if (first + lane() < runs) {
                const Run run = run_of(first + lane());
                begin = run.begin, length = run.end - run.begin;
            }
            const index_t before = sum_before(length);
            ends[lane()] = before + length;
            begins[lane()] = begin - before;
            __syncthreads();
            some(ends[kCount - 1], [&](index_t t) -> RunEntry {
                index_t at = 0;  // as many runs end before
#pragma unroll
                for (int half = kCount / 2; half > 0; half /= 2) {
                    if (ends[at + half - 1] <= t) at += half;
                }
                return {first + at, begins[at] + t};
            });
            __syncthreads();
        }
    }
};

}  // namespace spmvgpu::gpu
