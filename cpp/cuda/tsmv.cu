#include "cuda/check.hpp"
#include "cuda/warp.cuh"
#include "formats/tsmv.hpp"

namespace spmvgpu {

namespace {

using namespace cuda;

constexpr int kInFlight = 4;                // steps whose slots a thread loads while it works on as many before them
constexpr int kThreadsPerProcessor = 1024;  // to keep: no more registers than that allows

// What a block reads; the same for all blocks.
template <class T>
struct Tiles {
    const TsmvTile* tiles;
    const index_t* halo_columns;
    const index_t* slice_steps;
    const std::uint16_t* thread_rows;
    const index_t* step_offsets;
    const std::uint16_t* columns;
    const std::uint32_t* coordinates;
    const T* values;
    T* halo_sums;  // scratch: y of every halo
};

// A block's part in shared memory: x and y in the tile's numbering, and where each step begins and the last one ends.
template <class T>
struct Window {
    T* x;
    T* y;
    index_t* step_offsets;
    index_t steps;
};

// The slots of kInFlight steps that belong to one thread: where there is none or a fake entry, kFake.
template <class T, class Index, Index kFake>
struct Slots {
    Index indices[kInFlight];
    T values[kInFlight];

    __device__ void load(const Window<T>& window, const Index* all_indices, const T* all_values, index_t first) {
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) {
            indices[i] = kFake;
            values[i] = T(0);
            if (first + i >= window.steps) continue;
            const index_t slot = window.step_offsets[first + i] + threadIdx.x;
            if (slot >= window.step_offsets[first + i + 1]) continue;
            indices[i] = load_once(all_indices + slot);
            values[i] = load_once(all_values + slot);
        }
    }
};

// The tile's slices: a row per thread in each. Nobody meets in y within a step, so a barrier after each step is all.
template <class T>
struct SliceWalk {
    using Ahead = Slots<T, std::uint16_t, Tsmv<T>::kFake>;

    static __device__ void load(Ahead& slots, const Tiles<T>& all, const Window<T>& window, index_t first) {
        slots.load(window, all.columns, all.values, first);
    }

    static __device__ void multiply(Ahead next, const Tiles<T>& all, const Window<T>& window, index_t slice,
                                    index_t slice_end) {
        const auto row_in = [&](index_t s) {
            return s < slice_end ? all.thread_rows[std::int64_t(s) * blockDim.x + threadIdx.x] : Tsmv<T>::kNoRow;
        };
        const index_t first_step = all.slice_steps[slice];
        index_t next_slice_step = 0;
        int row = Tsmv<T>::kNoRow, next_row = row_in(slice);
        T x_row = 0, sum = 0;
        for (index_t first = 0; first < window.steps; first += kInFlight) {
            const Ahead now = next;
            load(next, all, window, first + kInFlight);
#pragma unroll
            for (int i = 0; i < kInFlight; ++i) {
                if (first + i >= window.steps) break;
                if (first + i == next_slice_step) {
                    if (row != Tsmv<T>::kNoRow) window.y[row] += sum;
                    __syncthreads();
                    row = next_row;
                    next_row = row_in(++slice);
                    next_slice_step = all.slice_steps[slice] - first_step;
                    x_row = row != Tsmv<T>::kNoRow ? window.x[row] : T(0);
                    sum = 0;
                }
                const int column = now.indices[i];
                if (column != Tsmv<T>::kFake) {
                    sum += now.values[i] * window.x[column];
                    if (column != row) window.y[column] += now.values[i] * x_row;
                }
                __syncthreads();
            }
        }
        if (row != Tsmv<T>::kNoRow) window.y[row] += sum;
    }
};

// The poster's block: a thread goes on to its next row when the flag says so.
template <class T>
struct FlagWalk {
    using Ahead = Slots<T, std::uint32_t, TsmvCoordinate::kFake>;

    static __device__ void load(Ahead& slots, const Tiles<T>& all, const Window<T>& window, index_t first) {
        slots.load(window, all.coordinates, all.values, first);
    }

    static __device__ void multiply(Ahead next, const Tiles<T>& all, const Window<T>& window, index_t, index_t) {
        T sum = 0;
        for (index_t first = 0; first < window.steps; first += kInFlight) {
            const Ahead now = next;
            load(next, all, window, first + kInFlight);
#pragma unroll
            for (int i = 0; i < kInFlight; ++i) {
                if (first + i >= window.steps) break;
                const std::uint32_t packed = now.indices[i];
                if (packed != TsmvCoordinate::kFake) {
                    const auto row = TsmvCoordinate::row(packed), column = TsmvCoordinate::column(packed);
                    sum += now.values[i] * window.x[column];
                    if (column != row) window.y[column] += now.values[i] * window.x[row];
                    if (packed & TsmvCoordinate::kLast) {
                        window.y[row] += sum;
                        sum = 0;
                    }
                }
                __syncthreads();
            }
        }
    }
};

template <class T, class Walk, int kThreads>
__global__ void __launch_bounds__(kThreads, kThreadsPerProcessor / kThreads)
    tsmv_block_per_tile(Tiles<T> all, Product<T> product) {
    extern __shared__ double shared[];  // aligned for every T
    const TsmvTile tile = all.tiles[blockIdx.x], end = all.tiles[blockIdx.x + 1];
    const int own = end.row - tile.row, halo = end.halo - tile.halo;
    const index_t first_step = all.slice_steps[tile.slice];
    Window<T> window;
    window.x = reinterpret_cast<T*>(shared);
    window.y = window.x + own + halo;
    window.step_offsets = reinterpret_cast<index_t*>(window.y + own + halo);
    window.steps = all.slice_steps[end.slice] - first_step;

    for (int i = threadIdx.x; i <= window.steps; i += kThreads) {
        window.step_offsets[i] = all.step_offsets[first_step + i];
    }
    __syncthreads();
    typename Walk::Ahead ahead;
    Walk::load(ahead, all, window, 0);  // under way while x is fetched
    for (int i = threadIdx.x; i < own + halo; i += kThreads) {
        window.x[i] = product.x[i < own ? tile.row + i : all.halo_columns[tile.halo + i - own]];
        window.y[i] = 0;
    }
    __syncthreads();
    Walk::multiply(ahead, all, window, tile.slice, end.slice);
    __syncthreads();
    for (int i = threadIdx.x; i < own; i += kThreads) store_row(product, tile.row + i, window.y[i]);
    for (int i = threadIdx.x; i < halo; i += kThreads) all.halo_sums[tile.halo + i] = window.y[own + i];
}

// A thread per row that lies in halos, or, where it lies in many, its whole warp.
template <class T>
__global__ void tsmv_merge(index_t count, const index_t* __restrict__ rows, const index_t* __restrict__ offsets,
                           const index_t* __restrict__ sources, const T* __restrict__ halo_sums, Product<T> product) {
    constexpr index_t kMany = 32;
    const index_t i = blockIdx.x * blockDim.x + threadIdx.x;
    const int lane = threadIdx.x % kWarp;
    const index_t begin = i < count ? offsets[i] : 0, end = i < count ? offsets[i + 1] : 0;
    T sum = 0;
    if (end - begin <= kMany) {
        for (index_t k = begin; k < end; ++k) sum += halo_sums[sources[k]];
    }
    unsigned long_rows = __ballot_sync(kAllLanes, end - begin > kMany);
    for (; long_rows != 0; long_rows &= long_rows - 1) {
        const int owner = __ffs(static_cast<int>(long_rows)) - 1;
        const index_t from = __shfl_sync(kAllLanes, begin, owner), to = __shfl_sync(kAllLanes, end, owner);
        T part = 0;
        for (index_t k = from + lane; k < to; k += kWarp) part += halo_sums[sources[k]];
        part = __shfl_sync(kAllLanes, sum_lanes(part, kWarp), 0);
        if (lane == owner) sum = part;
    }
    if (i < count) product.y[rows[i]] += product.alpha * sum;
}

template <class T, class Walk, int kThreads>
void launch_tiles(const Tsmv<T>& tsmv, const Tiles<T>& all, const Product<T>& product, Stream stream) {
    const auto kernel = tsmv_block_per_tile<T, Walk, kThreads>;
    const auto bytes = static_cast<int>(tsmv.shared_bytes);
    // More than a kernel gets unasked; a setting that the device keeps, at about a microsecond.
    constexpr int kUnasked = 48 << 10;
    if (bytes > kUnasked) {
        check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), "cudaFuncSetAttribute");
    }
    kernel<<<static_cast<unsigned>(tsmv.tile_count()), kThreads, bytes, native(stream)>>>(all, product);
    check_launch("tsmv_block_per_tile");
}

template <class T, class Walk>
void launch_threads(const Tsmv<T>& tsmv, const Tiles<T>& all, const Product<T>& product, Stream stream) {
    switch (tsmv.tuning.threads) {
        case 128:
            return launch_tiles<T, Walk, 128>(tsmv, all, product, stream);
        case 256:
            return launch_tiles<T, Walk, 256>(tsmv, all, product, stream);
        default:
            return launch_tiles<T, Walk, 512>(tsmv, all, product, stream);
    }
}

}  // namespace

template <class T>
void Tsmv<T>::spmv_cuda(const Product<T>& product, Stream stream) const {
    if (rows == 0) return;
    auto* const halo_sums = static_cast<T*>(product.scratch);
    const Tiles<T> all{tiles.data(),   halo_columns.data(), slice_steps.data(), thread_rows.data(), step_offsets.data(),
                       columns.data(), coordinates.data(),  values.data(),      halo_sums};
    if (tuning.variant == TsmvVariant::kHalo) {
        launch_threads<T, SliceWalk<T>>(*this, all, product, stream);
    } else {
        launch_threads<T, FlagWalk<T>>(*this, all, product, stream);
    }
    if (const auto count = static_cast<index_t>(merge_rows.size()); count > 0) {
        constexpr int kThreads = 128;
        tsmv_merge<<<blocks_for(count, kThreads), kThreads, 0, native(stream)>>>(
            count, merge_rows.data(), merge_offsets.data(), merge_sources.data(), halo_sums, product);
        check_launch("tsmv_merge");
    }
    if (remainder.nnz > 0) remainder.spmv_cuda(remainder_product(product), stream);
}

template void Tsmv<float>::spmv_cuda(const Product<float>&, Stream) const;
template void Tsmv<double>::spmv_cuda(const Product<double>&, Stream) const;

}  // namespace spmvgpu
