#pragma once

#include "core/passes/passes.hpp"
#include "gpu/cuda/block_lanes.cuh"
#include "gpu/cuda/distinct.cuh"
#include "gpu/cuda/warp.cuh"
#include "gpu/cuda/warp_lanes.cuh"

namespace spmvgpu::gpu {

template <class Body>
__global__ void __launch_bounds__(kPassThreads) each_thread_per_element(std::int64_t n, Body body) {
    const std::int64_t i = std::int64_t(blockIdx.x) * kPassThreads + threadIdx.x;
    if (i < n) body(i);
}

template <class T>
__global__ void __launch_bounds__(kPassThreads) fill_thread_per_element(T* to, std::int64_t n, T value) {
    const std::int64_t i = std::int64_t(blockIdx.x) * kPassThreads + threadIdx.x;
    if (i < n) to[i] = value;
}

// row_of_entry() by a warp, which looks at as many places at once as it has lanes.
static __device__ index_t row_of_entry_by_warp(const index_t* row_offsets, index_t rows, index_t entry) {
    std::int64_t begin = 0, end = std::int64_t(rows) + 1;  // the first row that begins behind the entry is between
    while (begin < end) {
        const std::int64_t step = (end - begin + kWarp - 1) / kWarp;
        const std::int64_t place = begin + (threadIdx.x % kWarp + 1) * step - 1;
        const unsigned behind = __ballot_sync(kAllLanes, place >= end || row_offsets[place] > entry);
        if (behind == 0) return static_cast<index_t>(end) - 1;
        begin += (__ffs(static_cast<int>(behind)) - 1) * step;
        if (begin + step - 1 < end) end = begin + step - 1;
    }
    return static_cast<index_t>(begin) - 1;
}

// A block finds the rows of its first and of its last entry. Every row between them marks its begin, and the row of an
// entry is the last mark up to there, which takes fewer steps than a search for each entry, unless most of the rows are
// empty.
template <class Body>
__global__ void __launch_bounds__(kPassThreads)
    each_entry_thread_per_entry(index_t rows, const index_t* row_offsets, index_t nnz, Body body) {
    __shared__ index_t bounds[2];
    __shared__ alignas(16) index_t rows_of[kRowsPassEntries * kPassThreads];  // relative to the first
    const std::int64_t begin = std::int64_t(blockIdx.x) * kRowsPassEntries * kPassThreads;
    const std::int64_t stop = begin + kRowsPassEntries * kPassThreads, end = stop < nnz ? stop : nnz;
    if (threadIdx.x < 2 * kWarp) {
        const auto entry = static_cast<index_t>(threadIdx.x < kWarp ? begin : end - 1);
        const index_t row = row_of_entry_by_warp(row_offsets, rows, entry);
        if (threadIdx.x % kWarp == 0) bounds[threadIdx.x / kWarp] = row;
    }
    constexpr int kFours = kRowsPassEntries / 4, kMostRowsMarked = 16 * kRowsPassEntries * kPassThreads;
    int4* const own = reinterpret_cast<int4*>(rows_of) + threadIdx.x * kFours;
    for (int i = 0; i < kFours; ++i) own[i] = {0, 0, 0, 0};
    __syncthreads();
    const index_t first = bounds[0], last = bounds[1];
    if (last - first > kMostRowsMarked) {
        for (std::int64_t i = begin + threadIdx.x; i < end; i += kPassThreads) {
            const auto entry = static_cast<index_t>(i);
            body(first + row_of_entry(row_offsets + first, last + 1 - first, entry), entry);
        }
        return;
    }
    for (std::int64_t row = std::int64_t(first) + 1 + threadIdx.x; row <= last; row += kPassThreads) {
        const index_t place = row_offsets[row];
        if (row_offsets[row + 1] > place) rows_of[place - begin] = static_cast<index_t>(row - first);
    }
    __syncthreads();
    int4 fours[kFours];
    index_t largest = 0;
    for (int i = 0; i < kFours; ++i) {
        fours[i] = own[i];
        for (int* const number : {&fours[i].x, &fours[i].y, &fours[i].z, &fours[i].w}) {
            *number = largest = max(largest, *number);
        }
    }
    const index_t before = combined_before(largest, [](index_t a, index_t b) { return max(a, b); });
    for (int i = 0; i < kFours; ++i) {
        const int4 here = fours[i];
        own[i] = {max(here.x, before), max(here.y, before), max(here.z, before), max(here.w, before)};
    }
    __syncthreads();
    for (std::int64_t i = begin + threadIdx.x; i < end; i += kPassThreads) {
        body(first + rows_of[i - begin], static_cast<index_t>(i));
    }
}

// The destination of the blocks' sums: a place for each, or one for all.
template <class Sum>
struct SumOfEach {
    Sum* sums;
    __device__ void take(const Sum& sum) const { sums[blockIdx.x] = sum; }
};
struct SumOfAll {
    std::int64_t* all;
    __device__ void take(std::int64_t sum) const {
        if (sum != 0) atomicAdd(reinterpret_cast<unsigned long long*>(all), static_cast<unsigned long long>(sum));
    }
};

template <class Sum, class Place>
__device__ __forceinline__ void leave_sum_of_block(const Sum& own, const Place& place) {
    __shared__ alignas(16) unsigned char memory[kPassThreads * sizeof(Sum)];  // Sum has initialisers
    Sum* const shared = reinterpret_cast<Sum*>(memory);
    shared[threadIdx.x] = own;
    for (int half = kPassThreads / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    }
    if (threadIdx.x == 0) place.take(shared[0]);
}

// If sums are small, a thread has several elements at a time, so that the reads of one do not wait for the reads of
// another.
template <class Sum, class Place, class Body>
__global__ void __launch_bounds__(kPassThreads) reduce_grid_stride(std::int64_t n, Place place, Body body) {
    Sum sum{};
    const std::int64_t stride = std::int64_t(gridDim.x) * kPassThreads;
    std::int64_t i = std::int64_t(blockIdx.x) * kPassThreads + threadIdx.x;
    if constexpr (sizeof(Sum) <= 2 * sizeof(std::int64_t)) {
        for (; i + (kPassEntries - 1) * stride < n; i += kPassEntries * stride) {
            Sum some[kPassEntries];
#pragma unroll
            for (int j = 0; j < kPassEntries; ++j) some[j] = body(i + j * stride);
#pragma unroll
            for (int j = 0; j < kPassEntries; ++j) sum += some[j];
        }
    }
    for (; i < n; i += stride) sum += body(i);
    leave_sum_of_block(sum, place);
}

// Neighbouring threads read neighbouring entries, whose terms go to shared memory; there a thread adds up the terms of
// its row. A block has some rows at a time, with about as many entries as are staged at once. A term is skewed by one
// place in 16, so that rows of even lengths do not all begin in the same bank.
constexpr int kStagedEntries = kRowsPassEntries * kPassThreads;
constexpr int staged_at(int entry) { return entry + entry / 16; }

template <class Sum, class V, class Place, class Term, class Body>
__global__ void __launch_bounds__(kPassThreads)
    reduce_rows_staged(index_t rows, index_t rows_at_once, const index_t* row_offsets, Place place, Term term,
                       Body body) {
    __shared__ alignas(16) unsigned char memory[staged_at(kStagedEntries) * sizeof(V)];
    V* const staged = reinterpret_cast<V*>(memory);
    Sum sum{};
    for (std::int64_t first = std::int64_t(blockIdx.x) * rows_at_once; first < rows;
         first += std::int64_t(gridDim.x) * rows_at_once) {
        const std::int64_t stop = first + rows_at_once < rows ? first + rows_at_once : rows;
        const std::int64_t row = first + threadIdx.x;
        const std::int64_t begin = row_offsets[first], end = row_offsets[stop];
        const std::int64_t own_begin = row < stop ? row_offsets[row] : end;
        const std::int64_t own_end = row < stop ? row_offsets[row + 1] : end;
        V own(0);
        for (std::int64_t stage = begin; stage < end; stage += kStagedEntries) {
            V terms[kRowsPassEntries];
#pragma unroll
            for (int j = 0; j < kRowsPassEntries; ++j) {
                const std::int64_t k = stage + j * kPassThreads + threadIdx.x;
                terms[j] = k < end ? term(static_cast<index_t>(k)) : V(0);
            }
#pragma unroll
            for (int j = 0; j < kRowsPassEntries; ++j) {
                staged[staged_at(j * kPassThreads + static_cast<int>(threadIdx.x))] = terms[j];
            }
            __syncthreads();
            const auto from =
                static_cast<int>(own_begin > stage ? min(own_begin - stage, std::int64_t(kStagedEntries)) : 0);
            const auto to = static_cast<int>(own_end > stage ? min(own_end - stage, std::int64_t(kStagedEntries)) : 0);
            for (int k = from; k < to; ++k) own += staged[staged_at(k)];
            __syncthreads();
        }
        if (row < stop) sum += body(static_cast<index_t>(row), own);
    }
    leave_sum_of_block(sum, place);
}

template <class Body>
__global__ void __launch_bounds__(kPassThreads) each_warp(std::int64_t n, Body body) {
    const std::int64_t i = (std::int64_t(blockIdx.x) * kPassThreads + threadIdx.x) / kWarp;
    if (i < n) body(WarpLanes{}, i);
}

// A block has few warps: one, for the most memory, or as many as share the memory that another block leaves. Their
// memory is in global memory if shared memory does not hold it.
constexpr int kWarpsWithMemory = 4;

template <class Body>
__global__ void __launch_bounds__(kWarpsWithMemory* kWarp)
    each_warp_with_memory(std::int64_t first, std::int64_t last, Body body, Word* all, std::int64_t words) {
    extern __shared__ double2 dynamic_memory[];
    const int warp = threadIdx.x / kWarp;
    const std::int64_t i = std::int64_t(blockIdx.x) * (blockDim.x / kWarp) + warp;
    if (first + i >= last) return;
    Word* const shared = reinterpret_cast<Word*>(dynamic_memory);
    body(WarpLanes{}, first + i, all == nullptr ? shared + warp * words : all + i * words);
}

template <class Body>
__global__ void __launch_bounds__(kPassThreads) each_few_lanes_with_memory(std::int64_t n, Body body, int words) {
    extern __shared__ double2 dynamic_memory[];
    const int few = threadIdx.x / FewLanes::kCount;
    const std::int64_t i = std::int64_t(blockIdx.x) * (kPassThreads / FewLanes::kCount) + few;
    if (i < n) body(FewLanes{}, i, reinterpret_cast<Word*>(dynamic_memory) + few * words);
}

template <class Body>
__global__ void __launch_bounds__(kPassThreads) each_block_with_memory(Body body) {
    extern __shared__ double2 dynamic_memory[];
    body(BlockLanes{}, std::int64_t(blockIdx.x), reinterpret_cast<Word*>(dynamic_memory));
}

// Words that keep the memory behind them aligned for any number.
constexpr std::int64_t kAlignedWords = sizeof(double2) / sizeof(Word);
constexpr std::int64_t aligned_words(std::int64_t words) {
    return (words + kAlignedWords - 1) / kAlignedWords * kAlignedWords;
}

}  // namespace spmvgpu::gpu
