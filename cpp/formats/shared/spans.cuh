// The second kernel of formats whose first one leaves partial sums of rows that are cut into parts: a warp per such row
// adds its partial sums, always in the same order.
#pragma once

#include "core/array.hpp"
#include "formats/shared/spans.hpp"
#include "gpu/cuda/check.hpp"
#include "gpu/cuda/warp.cuh"

namespace spmvgpu::gpu {

// partial(span, i) gives partial sum i of [span.first, span.last].
template <class T, class Partial>
__global__ void merge_spans_warp_per_row(const RowSpan* spans, index_t count, Product<T> product, Partial partial) {
    const index_t i = blockIdx.x * (blockDim.x / kWarp) + threadIdx.x / kWarp;
    if (i >= count) return;
    const RowSpan span = spans[i];
    wait_for_kernel_before();
    T sum = 0;
    for (index_t part = span.first + threadIdx.x % kWarp; part <= span.last; part += kWarp) sum += partial(span, part);
    sum = sum_lanes(sum, kWarp);
    if (threadIdx.x % kWarp == 0) store_row(product, span.row, sum);
}

// Partial sums of cut rows in the commonest layout: a row leaves the first part it lies in and enters the others.
template <class T>
struct CutRowSums {
    const T* entering;
    const T* leaving;
    __device__ T operator()(RowSpan span, index_t part) const {
        return part == span.first ? leaving[part] : entering[part];
    }
};

template <class T, class Partial>
void merge_spans(const Array<RowSpan>& spans, const Product<T>& product, Stream stream, Partial partial) {
    constexpr int kThreads = 128;
    const auto count = static_cast<index_t>(spans.size());
    if (count == 0) return;
    launch_early(merge_spans_warp_per_row<T, Partial>, {blocks_for(count, kThreads / kWarp), kThreads}, stream,
                 spans.data(), count, product, partial);
}

}  // namespace spmvgpu::gpu
