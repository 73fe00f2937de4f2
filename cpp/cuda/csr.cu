#include "formats/csr.hpp"

#include "cuda/check.hpp"
#include "cuda/spans.cuh"
#include "cuda/warp.cuh"

namespace spmvgpu {

namespace {

using namespace cuda;

constexpr int kBlockSize = 256;  // Yin 2012, section 5.1 (5); also the best or within 2 % of it for the other kernels

// A group of kLanes lanes per row; products reduced by warp shuffles (Tao and Huang 2015).
template <class T, int kLanes>
__global__ void __launch_bounds__(kBlockSize)
    csr_shuffle(index_t rows, const index_t* __restrict__ row_offsets, const index_t* __restrict__ col_indices,
                const T* __restrict__ values, Product<T> product) {
    const auto row = static_cast<index_t>((std::int64_t(blockIdx.x) * kBlockSize + threadIdx.x) / kLanes);
    T sum = 0;
    if (row < rows) {
        const index_t end = row_offsets[row + 1];
#pragma unroll 4
        for (index_t k = row_offsets[row] + threadIdx.x % kLanes; k < end; k += kLanes) {
            sum += load_once(values + k) * product.x[load_once(col_indices + k)];
        }
    }
    sum = sum_lanes(sum, kLanes);
    if (row < rows && threadIdx.x % kLanes == 0) store_row(product, row, sum);
}

// The same with the reduction in shared memory (Yin 2012: CSR-R with 32 lanes, CSR-O with 16); nothing else differs.
template <class T, int kLanes>
__global__ void __launch_bounds__(kBlockSize)
    csr_shared(index_t rows, const index_t* __restrict__ row_offsets, const index_t* __restrict__ col_indices,
               const T* __restrict__ values, Product<T> product) {
    __shared__ T sums[kBlockSize];
    const auto row = static_cast<index_t>((std::int64_t(blockIdx.x) * kBlockSize + threadIdx.x) / kLanes);
    const int lane = threadIdx.x % kLanes;
    T sum = 0;
    if (row < rows) {
        const index_t end = row_offsets[row + 1];
#pragma unroll 4
        for (index_t k = row_offsets[row] + lane; k < end; k += kLanes) {
            sum += load_once(values + k) * product.x[load_once(col_indices + k)];
        }
    }
    sums[threadIdx.x] = sum;
    for (int offset = kLanes / 2; offset > 0; offset /= 2) {
        __syncwarp();
        const T other = lane < offset ? sums[threadIdx.x + offset] : T(0);
        __syncwarp();
        sums[threadIdx.x] = sum += other;
    }
    if (row < rows && lane == 0) store_row(product, row, sum);
}

// Sum of the products of [begin, end) by a whole block, valid in thread 0.
template <class T>
__device__ T sum_range(index_t begin, index_t end, const index_t* __restrict__ col_indices, const T* __restrict__ values,
                       const T* x) {
    T sum = 0;
#pragma unroll 8
    for (index_t k = begin + threadIdx.x; k < end; k += kBlockSize) {
        sum += load_once(values + k) * x[load_once(col_indices + k)];
    }
    return sum_block<T, kBlockSize>(sum);
}

// A block per tile. Tiles of several rows: the products of all their non-zeros go to shared memory, read from global
// memory without regard to row ends, with kItems loads in flight per thread; then a group of lanes adds up each row.
template <class T, int kItems>
__global__ void __launch_bounds__(kBlockSize)
    csr_balanced_block_per_tile(const Tile* __restrict__ tiles, const index_t* __restrict__ row_offsets,
                                const index_t* __restrict__ col_indices, const T* __restrict__ values, Product<T> product,
                                T* segment_sums) {
    __shared__ T products[kBlockSize * kItems];
    const Tile tile = tiles[blockIdx.x];
    const index_t tile_rows = tile.row_end - tile.row_begin;
    if (tile_rows <= 1) {  // one row, or a segment of one
        const T sum = sum_range(tile.nz_begin, tile.nz_end, col_indices, values, product.x);
        if (threadIdx.x != 0) return;
        if (tile.row_end < 0) {
            segment_sums[-tile.row_end - 1] = sum;
        } else {
            store_row(product, tile.row_begin, sum);
        }
        return;
    }

    const index_t nonzeros = tile.nz_end - tile.nz_begin;
    index_t cols[kItems];
    T factors[kItems];
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
        const index_t k = i * kBlockSize + threadIdx.x;
        cols[i] = k < nonzeros ? load_once(col_indices + tile.nz_begin + k) : -1;
        factors[i] = k < nonzeros ? load_once(values + tile.nz_begin + k) : T(0);
    }
    // Lanes per row: as many as the block has to spare, so that one round serves all rows of the tile.
    int lanes = kWarp;
    while (lanes > 1 && tile_rows * lanes > kBlockSize) lanes /= 2;
    const int lane = threadIdx.x % lanes;
    index_t row = tile.row_begin + threadIdx.x / lanes;
    index_t begin = 0, end = 0;
    if (row < tile.row_end) {
        begin = row_offsets[row] - tile.nz_begin;
        end = row_offsets[row + 1] - tile.nz_begin;
    }
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
        if (cols[i] >= 0) products[i * kBlockSize + threadIdx.x] = factors[i] * product.x[cols[i]];
    }
    __syncthreads();

    while (true) {
        T sum = 0;
        for (index_t k = begin + lane; k < end; k += lanes) sum += products[k];
        sum = sum_lanes(sum, lanes);
        if (lane == 0 && row < tile.row_end) store_row(product, row, sum);
        if (tile_rows <= kBlockSize) return;  // the whole block agrees, and with it every warp
        row += kBlockSize;                    // more rows than threads: a thread per row, round by round
        if (row - static_cast<index_t>(threadIdx.x) >= tile.row_end) return;
        begin = end = 0;
        if (row < tile.row_end) {
            begin = row_offsets[row] - tile.nz_begin;
            end = row_offsets[row + 1] - tile.nz_begin;
        }
    }
}

// Partial sum i of a row that is cut into segments.
template <class T>
struct SegmentSums {
    const T* sums;
    __device__ T operator()(RowSpan, index_t i) const { return sums[i]; }
};

template <class T, int kLanes>
void launch_shuffle(const Csr<T>& csr, const Product<T>& product, Stream stream) {
    csr_shuffle<T, kLanes><<<blocks_for(std::int64_t(csr.rows) * kLanes, kBlockSize), kBlockSize, 0, native(stream)>>>(
        csr.rows, csr.row_offsets.data(), csr.col_indices.data(), csr.values.data(), product);
    check_launch("csr_shuffle");
}

template <class T, int kLanes>
void launch_shared(const Csr<T>& csr, const Product<T>& product, Stream stream) {
    csr_shared<T, kLanes><<<blocks_for(std::int64_t(csr.rows) * kLanes, kBlockSize), kBlockSize, 0, native(stream)>>>(
        csr.rows, csr.row_offsets.data(), csr.col_indices.data(), csr.values.data(), product);
    check_launch("csr_shared");
}

template <class T, int kItems>
void launch_balanced(const Csr<T>& csr, const Product<T>& product, Stream stream) {
    auto* segment_sums = static_cast<T*>(product.scratch);
    csr_balanced_block_per_tile<T, kItems>
        <<<static_cast<unsigned>(csr.tiles.size()), kBlockSize, 0, native(stream)>>>(
            csr.tiles.data(), csr.row_offsets.data(), csr.col_indices.data(), csr.values.data(), product, segment_sums);
    check_launch("csr_balanced_block_per_tile");
    merge_spans(csr.spans, product, stream, SegmentSums<T>{segment_sums});
}

}  // namespace

template <class T>
void Csr<T>::spmv_cuda(const Product<T>& product, Stream stream) const {
    if (rows == 0) return;
    switch (tuning.kernel) {
        case CsrKernel::kShared: return launch_shared<T, 32>(*this, product, stream);
        case CsrKernel::kHalfWarp: return launch_shared<T, 16>(*this, product, stream);
        case CsrKernel::kShuffle:
            switch (tuning.lanes_per_row) {
                case 1: return launch_shuffle<T, 1>(*this, product, stream);
                case 2: return launch_shuffle<T, 2>(*this, product, stream);
                case 4: return launch_shuffle<T, 4>(*this, product, stream);
                case 8: return launch_shuffle<T, 8>(*this, product, stream);
                case 16: return launch_shuffle<T, 16>(*this, product, stream);
                default: return launch_shuffle<T, 32>(*this, product, stream);
            }
        case CsrKernel::kBalanced:
            switch (tuning.tile) {
                case 256: return launch_balanced<T, 1>(*this, product, stream);
                case 512: return launch_balanced<T, 2>(*this, product, stream);
                case 1024: return launch_balanced<T, 4>(*this, product, stream);
                case 2048: return launch_balanced<T, 8>(*this, product, stream);
                default: return launch_balanced<T, 16>(*this, product, stream);
            }
    }
}

template void Csr<float>::spmv_cuda(const Product<float>&, Stream) const;
template void Csr<double>::spmv_cuda(const Product<double>&, Stream) const;

}  // namespace spmvgpu
