#include "core/dispatch.hpp"
#include "formats/bsell/layout.hpp"
#include "gpu/cuda/check.hpp"
#include "gpu/cuda/warp.cuh"

namespace spmvgpu {

namespace {

using namespace gpu;

// kWarps warps per slice: warp w takes slots w, w + kWarps, ...; a lane per block row. Sums meet in shared memory.
template <class T, int kBlock, int kWarps>
__global__ void __launch_bounds__(kBlockSize)
    bsell_lane_per_block_row(index_t block_rows, index_t slices, const index_t* __restrict__ slice_offsets,
                             BlockColumns columns, const T* __restrict__ values,
                             const index_t* __restrict__ permutation, Product<T> product) {
    constexpr int kInFlight = Bsell<T>::in_flight(kBlock);
    constexpr int kSlicesPerBlock = kBlockSize / (kWarps * kWarp);
    const int lane = threadIdx.x % kWarp;
    const int warp = threadIdx.x / kWarp % kWarps;
    const int block_slice = threadIdx.x / kWarp / kWarps;
    const index_t slice = blockIdx.x * kSlicesPerBlock + block_slice;
    const index_t end = slice < slices ? slice_offsets[slice + 1] / kSliceLanes : 0;
    const index_t begin = slice < slices ? slice_offsets[slice] / kSliceLanes + warp : 0;
    const Keeping keeping(product.policy);
    T sums[kBlock];
#pragma unroll
    for (int r = 0; r < kBlock; ++r) sums[r] = T(0);
    for (index_t slot = begin; slot < end; slot += kInFlight * kWarps) {
        // All loads except from x are issued before one is used.
        index_t bases[kInFlight], distances[kInFlight], cols[kInFlight];
        T factors[kInFlight][kBlock][kBlock], gathered[kInFlight][kBlock];
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) {
            const bool valid = slot + i * kWarps < end;
            const std::int64_t place = std::int64_t(slot + i * kWarps) * kSliceLanes + lane;
            bases[i] = valid ? columns.bases[slot + i * kWarps] : 0;
            distances[i] = valid ? keeping.load_once(columns.near_cols + place) : Bsell<T>::kPadding;
#pragma unroll
            for (int r = 0; r < kBlock; ++r) {
#pragma unroll
                for (int c = 0; c < kBlock; ++c) {
                    const T* const from = values + entry_offset(slot + i * kWarps, kBlock, r, c) + lane;
                    factors[i][r][c] = valid ? keeping.load_once(from) : T(0);
                }
            }
        }
        index_t are_far = 0;  // negative if a base is
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) {
            cols[i] = distances[i] == Bsell<T>::kPadding ? -1 : bases[i] + distances[i];
            are_far |= bases[i];
        }
        if (are_far < 0) {  // rare: one branch costs less than steps without effect
#pragma unroll
            for (int i = 0; i < kInFlight; ++i) {
                if (bases[i] < 0) cols[i] = columns.far_cols[std::int64_t(~bases[i]) * kSliceLanes + lane];
            }
        }
        if (slot == begin) wait_for_kernel_before();
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) {
#pragma unroll
            for (int c = 0; c < kBlock; ++c) {
                const T* const from = product.x + (std::int64_t(cols[i]) * kBlock + c);
                gathered[i][c] = cols[i] >= 0 ? load(from) : T(0);
            }
        }
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) {
#pragma unroll
            for (int r = 0; r < kBlock; ++r) {
#pragma unroll
                for (int c = 0; c < kBlock; ++c) sums[r] += factors[i][r][c] * gathered[i][c];
            }
        }
    }
    if constexpr (kWarps > 1) {
        __shared__ alignas(16) unsigned char memory[kSlicesPerBlock * kWarps * kBlock * kWarp * sizeof(T)];
        auto* const all = reinterpret_cast<T*>(memory) + block_slice * kWarps * kBlock * kWarp + lane;
#pragma unroll
        for (int r = 0; r < kBlock; ++r) store(all + (warp * kBlock + r) * kWarp, sums[r]);
        __syncthreads();
        if (warp != 0) return;
        for (int w = 1; w < kWarps; ++w) {
#pragma unroll
            for (int r = 0; r < kBlock; ++r) sums[r] += load(all + (w * kBlock + r) * kWarp);
        }
    }
    const index_t place = slice * kSliceLanes + lane;
    if (slice >= slices || place >= block_rows) return;
    wait_for_kernel_before();
    const index_t row = (permutation != nullptr ? permutation[place] : place) * kBlock;
#pragma unroll
    for (int r = 0; r < kBlock; ++r) store_row(product, row + r, sums[r]);
}

}  // namespace

template <class T>
void Bsell<T>::spmv_cuda(const Product<T>& product, Stream stream) const {
    if (rows == 0) return;
    dispatch<1, 2, 3, 4, 6>("block", block, [&]<int kBlock>() {
        dispatch<1, 2, 4, BsellTuning::kMostWarps>("warps_per_slice", tuning.warps_per_slice, [&]<int kWarps>() {
            launch_early(bsell_lane_per_block_row<T, kBlock, kWarps>,
                         {blocks_for(std::int64_t(slices) * kWarps * kWarp, kBlockSize), kBlockSize}, stream,
                         block_rows(), slices, slice_offsets.data(), columns_of(*this), values.data(),
                         permutation.size() > 0 ? permutation.data() : nullptr, product);
        });
    });
}

#define INSTANTIATE(T) template void Bsell<T>::spmv_cuda(const Product<T>&, Stream) const;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
