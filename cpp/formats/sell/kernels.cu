#include "core/dispatch.hpp"
#include "formats/sell/layout.hpp"
#include "gpu/cuda/check.hpp"
#include "gpu/cuda/warp.cuh"

namespace spmvgpu {

namespace {

using namespace gpu;

// Neighbouring slices share x in the L1: blocks of 256 threads were measured 24 % faster than of 128 on a wide band,
// and 3 % slower on a 5-point grid.
constexpr int threads_of(int warps) { return warps * kWarp > kBlockSize ? warps * kWarp : kBlockSize; }

// kWarps warps take a slice: warp w takes columns w, w + kWarps, ...; a lane takes a row. Sums meet in shared memory.
template <class T, int kWarps, int kInFlight>
__global__ void __launch_bounds__(threads_of(kWarps))
    sell_lane_per_row(index_t rows, index_t slices, const index_t* __restrict__ slice_offsets,
                      const index_t* __restrict__ col_indices, const T* __restrict__ values,
                      const index_t* __restrict__ permutation, Product<T> product) {
    let_next_kernel_start();
    constexpr int kSlicesPerBlock = threads_of(kWarps) / (kWarps * kWarp);
    const int lane = threadIdx.x % kWarp;
    const int warp = threadIdx.x / kWarp % kWarps;
    const int block_slice = threadIdx.x / kWarp / kWarps;
    const index_t slice = blockIdx.x * kSlicesPerBlock + block_slice;
    T sum = 0;
    if (slice < slices) {
        sum = sum_strided<kInFlight>(col_indices, values, product, unsigned(slice_offsets[slice]) + warp * kWarp + lane,
                                     slice_offsets[slice + 1], kWarps * kWarp);
    }
    if constexpr (kWarps > 1) {
        __shared__ T sums[kSlicesPerBlock][kWarps][kWarp];
        sums[block_slice][warp][lane] = sum;
        __syncthreads();
        if (warp != 0) return;
#pragma unroll 8  // all 31 at once would need half of the registers
        for (int w = 1; w < kWarps; ++w) sum += sums[block_slice][w][lane];
    }
    if (slice >= slices) return;
    wait_for_kernel_before();
    const index_t position = slice * kWarp + lane;  // at most 2^31 - 1, rows being fewer than 2^31
    if (position < rows) store_row(product, permutation ? permutation[position] : position, sum);
}

template <class T, int kWarps, int kInFlight>
void launch_in_flight(const Sell<T>& sell, const Product<T>& product, Stream stream) {
    constexpr int kThreads = threads_of(kWarps);
    const unsigned blocks = blocks_for(std::int64_t(sell.slices) * kWarps * kWarp, kThreads);
    launch_early(sell_lane_per_row<T, kWarps, kInFlight>, {blocks, kThreads}, stream, sell.rows, sell.slices,
                 sell.slice_offsets.data(), sell.col_indices.data(), sell.values.data(), sell.permutation.data(),
                 product);
}

template <class T, int kWarps>
void launch(const Sell<T>& sell, const Product<T>& product, Stream stream) {
    // Four columns are in flight per warp; eight of floats, where that makes one round of two.
    if constexpr (sizeof(T) == 4) {
        const double columns = static_cast<double>(sell.values.size()) / sell.slices / (kWarp * kWarps);
        if (columns > 4 && columns <= 8) return launch_in_flight<T, kWarps, 8>(sell, product, stream);
    }
    launch_in_flight<T, kWarps, 4>(sell, product, stream);
}

}  // namespace

template <class T>
void Sell<T>::spmv_cuda(const Product<T>& product, Stream stream) const {
    if (rows == 0) return;
    dispatch<1, 2, 4, 8, 16, 32>("warps_per_slice", tuning.warps_per_slice,
                                 [&]<int kWarps>() { launch<T, kWarps>(*this, product, stream); });
}

#define INSTANTIATE(T) template void Sell<T>::spmv_cuda(const Product<T>&, Stream) const;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
