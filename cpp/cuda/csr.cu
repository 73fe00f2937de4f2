#include "core/dispatch.hpp"
#include "cuda/check.hpp"
#include "cuda/residency.cuh"
#include "cuda/residency.hpp"
#include "cuda/warp.cuh"
#include "formats/csr.hpp"

namespace spmvgpu {

namespace {

using namespace cuda;

constexpr int kInFlight = 4;     // loads in flight per lane of a row
constexpr int kBlockSize = 256;  // Yin 2012, section 5.1 (5)

// A group of kLanes lanes per row; products reduced by warp shuffles (Tao and Huang 2015).
template <class T, int kLanes>
__global__ void __launch_bounds__(kBlockSize)
    csr_shuffle(index_t rows, const index_t* __restrict__ row_offsets, const index_t* __restrict__ col_indices,
                const T* __restrict__ values, Product<T> product) {
    let_next_kernel_start();
    const auto row = static_cast<index_t>((std::int64_t(blockIdx.x) * kBlockSize + threadIdx.x) / kLanes);
    T sum = 0;
    if (row < rows) {
        sum = sum_strided<kInFlight>(col_indices, values, product.x, row_offsets[row] + threadIdx.x % kLanes,
                                     row_offsets[row + 1], kLanes);
    }
    sum = sum_lanes(sum, kLanes);
    wait_for_kernel_before();
    if (row < rows && threadIdx.x % kLanes == 0) store_row(product, row, sum);
}

// The same with the reduction in shared memory (Yin 2012: CSR-R with 32 lanes, CSR-O with 16); nothing else differs.
template <class T, int kLanes>
__global__ void __launch_bounds__(kBlockSize)
    csr_shared(index_t rows, const index_t* __restrict__ row_offsets, const index_t* __restrict__ col_indices,
               const T* __restrict__ values, Product<T> product) {
    let_next_kernel_start();
    __shared__ T sums[kBlockSize];
    const auto row = static_cast<index_t>((std::int64_t(blockIdx.x) * kBlockSize + threadIdx.x) / kLanes);
    const int lane = threadIdx.x % kLanes;
    T sum = 0;
    if (row < rows) {
        sum = sum_strided<kInFlight>(col_indices, values, product.x, unsigned(row_offsets[row]) + lane,
                                     row_offsets[row + 1], kLanes);
    }
    sum = sum_lanes_shared(sums, sum, kLanes);
    wait_for_kernel_before();
    if (row < rows && lane == 0) store_row(product, row, sum);
}

// What the balanced kernel reads; the same for all blocks.
template <class T>
struct BalancedPlan {
    const Tile* tiles;
    const RowSpan* spans;
    const index_t* row_offsets;
    const index_t* col_indices;
    const T* values;
    T* segment_sums;     // scratch: partial sums of cut rows
    unsigned* arrivals;  // scratch: segments of each cut row that are done; zero before and after every product
};

// A tile that is one row, or a segment of one. The block that finishes a row's last outstanding segment adds up all of
// them, in order; so the sum does not depend on which block that is.
template <class T, int kThreads>
__device__ void multiply_long_row(const BalancedPlan<T>& plan, const Tile& tile, const Product<T>& product) {
    __shared__ bool last_arrival;
    const index_t end = tile.nz_begin + tile.nonzeros;
    T sum =
        sum_strided<kInFlight>(plan.col_indices, plan.values, product.x, tile.nz_begin + threadIdx.x, end, kThreads);
    sum = sum_block<T, kThreads>(sum);
    wait_for_kernel_before();
    if (tile.rows == 1) {
        if (threadIdx.x == 0) store_row(product, tile.row_begin, sum);
        return;
    }
    const RowSpan span = plan.spans[tile.row_begin];
    unsigned* const arrivals = plan.arrivals + tile.row_begin;
    if (threadIdx.x == 0) {
        store(plan.segment_sums + tile.note, sum);
        __threadfence();
        last_arrival = atomicAdd(arrivals, 1u) == static_cast<unsigned>(span.last - span.first);
    }
    __syncthreads();
    if (!last_arrival || threadIdx.x >= kWarp) return;
    __threadfence();
    sum = 0;
    for (index_t i = span.first + threadIdx.x; i <= span.last; i += kWarp)
        sum += load_shared_result(plan.segment_sums + i);
    sum = sum_lanes(sum, kWarp);
    if (threadIdx.x == 0) {
        store_row(product, span.row, sum);
        *arrivals = 0;
    }
}

// A block per tile. In a tile of several rows the products of all its non-zeros go to shared memory, read from global
// memory without regard to row ends and with kItems loads in flight per thread; then groups of lanes add up the rows.
// Rows that are much longer than their group is wide are left over for whole warps.
template <class T, int kItems, int kThreads>
__global__ void __launch_bounds__(kThreads, (kItems <= 4 ? 8 : 6) * 256 / kThreads / (sizeof(T) > 8 ? 2 : 1))
    csr_balanced_block_per_tile(BalancedPlan<T> plan, Product<T> product) {
    let_next_kernel_start();
    T* const products = shared_array<T, kThreads * kItems>();
    __shared__ std::uint16_t left_over[kThreads * kItems / Tile::kMaxPerLane];
    __shared__ int left_over_count;
    const Tile tile = plan.tiles[blockIdx.x];
    if (tile.rows <= 1) return multiply_long_row<T, kThreads>(plan, tile, product);

    index_t cols[kItems];
    T factors[kItems];
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
        const int k = i * kThreads + threadIdx.x;
        cols[i] = k < tile.nonzeros ? load_once(plan.col_indices + tile.nz_begin + k) : -1;
        factors[i] = k < tile.nonzeros ? load_once(plan.values + tile.nz_begin + k) : T(0);
    }
    const index_t* const row_offsets = plan.row_offsets + tile.row_begin;
    const int lanes = Tile::lanes(tile.rows, kThreads), lane = threadIdx.x % lanes;
    int row = threadIdx.x / lanes;  // within the tile, as are begin and end
    int begin = row < tile.rows ? row_offsets[row] - tile.nz_begin : 0;
    int end = row < tile.rows ? row_offsets[row + 1] - tile.nz_begin : 0;
    if (threadIdx.x == 0) left_over_count = 0;
    wait_for_kernel_before();
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
        if (cols[i] >= 0) store(products + i * kThreads + threadIdx.x, factors[i] * load(product.x + cols[i]));
    }
    __syncthreads();

    // One round where every row has a thread; with more rows than threads, a thread per row and round by round.
    for (int round = 0; round < tile.rows; round += kThreads / lanes) {
        if (round > 0) {
            row = round + threadIdx.x;
            begin = row < tile.rows ? row_offsets[row] - tile.nz_begin : 0;
            end = row < tile.rows ? row_offsets[row + 1] - tile.nz_begin : 0;
        }
        const bool too_long = tile.note != 0 && end - begin > Tile::kMaxPerLane * lanes;
        T sum = 0;
        if (!too_long) {
            for (int k = begin + lane; k < end; k += lanes) sum += load(products + k);
        }
        sum = sum_lanes(sum, lanes);
        if (lane == 0 && row < tile.rows) {
            if (too_long) {
                left_over[atomicAdd(&left_over_count, 1)] = row;  // in any order: rows do not meet
            } else {
                store_row(product, tile.row_begin + row, sum);
            }
        }
    }
    if (tile.note == 0) return;
    __syncthreads();
    for (int i = threadIdx.x / kWarp; i < left_over_count; i += kThreads / kWarp) {
        row = left_over[i];
        end = row_offsets[row + 1] - tile.nz_begin;
        T sum = 0;
        for (int k = row_offsets[row] - tile.nz_begin + threadIdx.x % kWarp; k < end; k += kWarp)
            sum += load(products + k);
        sum = sum_lanes(sum, kWarp);
        if (threadIdx.x % kWarp == 0) store_row(product, tile.row_begin + row, sum);
    }
}

template <class T, int kLanes>
void launch_shuffle(const Csr<T>& csr, const Product<T>& product, Stream stream) {
    launch_early(csr_shuffle<T, kLanes>, {blocks_for(std::int64_t(csr.rows) * kLanes, kBlockSize), kBlockSize}, stream,
                 csr.rows, csr.row_offsets.data(), csr.col_indices.data(), csr.values.data(), product);
}

template <class T, int kLanes>
void launch_shared(const Csr<T>& csr, const Product<T>& product, Stream stream) {
    launch_early(csr_shared<T, kLanes>, {blocks_for(std::int64_t(csr.rows) * kLanes, kBlockSize), kBlockSize}, stream,
                 csr.rows, csr.row_offsets.data(), csr.col_indices.data(), csr.values.data(), product);
}

template <class T, int kTile>
void launch_balanced(const Csr<T>& csr, const Product<T>& product, Stream stream) {
    auto* segment_sums = static_cast<T*>(product.scratch);
    auto* arrivals = reinterpret_cast<unsigned*>(segment_sums + std::size_t(csr.segments) * kMaxColumns);
    const BalancedPlan<T> plan{
        csr.tiles.data(), csr.spans.data(), csr.row_offsets.data(), csr.col_indices.data(), csr.values.data(),
        segment_sums,     arrivals};
    constexpr int kThreads = Tile::threads(kTile);
    const auto kernel = csr_balanced_block_per_tile<T, kTile / kThreads, kThreads>;
    constexpr int kBytes = dynamic_bytes<T, kTile>();
    if constexpr (kBytes > 0) allow_shared_bytes(kernel, kBytes);
    launch_early(kernel, {static_cast<unsigned>(csr.tiles.size()), kThreads, kBytes}, stream, plan, product);
}

}  // namespace

template <class T>
void Csr<T>::spmv_cuda(const Product<T>& product, Stream stream) const {
    if (rows == 0) return;
    dispatch<CsrKernel::kBalanced, CsrKernel::kShuffle, CsrKernel::kShared, CsrKernel::kHalfWarp>(
        "kernel", tuning.kernel, [&]<CsrKernel kKernel>() {
            if constexpr (kKernel == CsrKernel::kShared) {
                launch_shared<T, 32>(*this, product, stream);
            } else if constexpr (kKernel == CsrKernel::kHalfWarp) {
                launch_shared<T, 16>(*this, product, stream);
            } else if constexpr (kKernel == CsrKernel::kShuffle) {
                dispatch<1, 2, 4, 8, 16, 32>("lanes_per_row", tuning.lanes_per_row,
                                             [&]<int kLanes>() { launch_shuffle<T, kLanes>(*this, product, stream); });
            } else {
                dispatch<256, 512, 1024, 2048, 4096>(
                    "tile", tuning.tile, [&]<int kTile>() { launch_balanced<T, kTile>(*this, product, stream); });
            }
        });
}

template <class T>
cuda::Residency cuda::csr_vector_residency(int ordinal) {
    return residency(csr_shared<T, kWarp>, kBlockSize, ordinal);
}

#define INSTANTIATE(T)                                           \
    template cuda::Residency cuda::csr_vector_residency<T>(int); \
    template void Csr<T>::spmv_cuda(const Product<T>&, Stream) const;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)

}  // namespace spmvgpu
