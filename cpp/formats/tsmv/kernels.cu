#include "core/dispatch.hpp"
#include "formats/tsmv/layout.hpp"
#include "gpu/cuda/check.hpp"
#include "gpu/cuda/overlap.cuh"
#include "gpu/cuda/warp.cuh"

namespace spmvgpu {

namespace {

using namespace gpu;

template <class T>
struct Tiles {
    const TsmvTile* tiles;
    const index_t* node_rows;  // null if all nodes have equally many rows
    const index_t* halo_nodes;
    const index_t* slice_steps;
    const std::uint16_t* thread_nodes;
    const index_t* step_offsets;
    const std::uint16_t* columns;
    const std::uint32_t* coordinates;
    const T* values;
    T* halo_sums;  // scratch: y of every halo
    Mirror<T> mirror;
};

// Row `i` of a node, or -1 if the node has fewer.
template <int kBlock>
__device__ __forceinline__ index_t row_of(const index_t* node_rows, index_t node, int i) {
    if (node_rows == nullptr) return node * kBlock + i;
    const index_t row = node_rows[node] + i;
    return row < node_rows[node + 1] ? row : -1;
}

// A thread block's shared memory: x and y in the tile's numbering, and the begins of the steps and the end of the last
// one.
template <class T>
struct TileWindow {
    T* x;
    T* y;
    index_t* step_offsets;
    index_t steps;
    Keeping keeping;
};

// The slots of kSteps steps that belong to one thread: where there is none or a fake block, kFake.
template <class T, class Index, Index kFake, int kSteps, int kValues>
struct Slots {
    Index indices[kSteps];
    T values[kSteps][kValues];

    __device__ __forceinline__ void load(const TileWindow<T>& window, const Index* all_indices, const T* all_values,
                                         index_t first, index_t end) {
#pragma unroll
        for (int i = 0; i < kSteps; ++i) {
            indices[i] = kFake;
            if (first + i >= end) continue;
            const index_t begin = window.step_offsets[first + i], slots = window.step_offsets[first + i + 1] - begin;
            if (static_cast<index_t>(threadIdx.x) >= slots) continue;
            indices[i] = window.keeping.load_once(all_indices + begin + threadIdx.x);
            const T* const value = all_values + std::int64_t(begin) * kValues + threadIdx.x;
#pragma unroll
            for (int k = 0; k < kValues; ++k) values[i][k] = window.keeping.load_once(value + k * slots);
        }
    }
};

// The tile's slices, with a node per thread in each. In a step no two threads add to the same y, so a barrier after
// each step is enough; the terms of y are multiplied before, for kSteps steps at once, and the loads of the next ones
// are in flight behind the barriers. The depth grows where few threads are resident, for there the latency of a load
// would set the pace of every step.
template <class T, int kBlock, int kDepth>
struct SliceWalk {
    static constexpr int kNodeRows = kBlock;
    static constexpr int kSteps = (kBlock == 1 ? 4 : kBlock == 2 ? 2 : 1) * kDepth;
    // Threads to keep on a multiprocessor, which bounds the registers.
    static constexpr int kThreadsToHold = (kDepth > 1                     ? TsmvTuning::threads_to_hold(kDepth)
                                           : kBlock > 1 && sizeof(T) >= 8 ? 1024
                                                                          : 1280) /
                                          (sizeof(T) > 8 ? 2 : 1);
    using Ahead = Slots<T, std::uint16_t, Tsmv<T>::kFake, kSteps, kBlock * kBlock>;

    static __device__ __forceinline__ void load(Ahead& ahead, const Tiles<T>& all, const TileWindow<T>& window,
                                                index_t first, index_t end) {
        ahead.load(window, all.columns, all.values, first, end);
    }

    static __device__ __forceinline__ void multiply(Ahead& ahead, const Tiles<T>& all, const TileWindow<T>& window,
                                                    const TsmvTile& tile, const TsmvTile& tile_end) {
        const index_t first_step = all.slice_steps[tile.slice];
        index_t step = 0, end = all.slice_steps[tile.slice + 1] - first_step;
        for (index_t slice = tile.slice; slice < tile_end.slice; ++slice) {
            const int node = all.thread_nodes[std::int64_t(slice) * blockDim.x + threadIdx.x];
            const index_t next_end = slice + 1 < tile_end.slice ? all.slice_steps[slice + 2] - first_step : end;
            T x[kBlock] = {}, sums[kBlock] = {};
            if (node != Tsmv<T>::kNoNode) {
#pragma unroll
                for (int i = 0; i < kBlock; ++i) x[i] = gpu::load(window.x + node * kBlock + i);
            }
            for (; step < end; step += kSteps) {
                T mirrored[kSteps][kBlock];
                int columns[kSteps];
#pragma unroll
                for (int s = 0; s < kSteps; ++s) {
                    columns[s] = ahead.indices[s];
                    if (columns[s] == Tsmv<T>::kFake) continue;
                    multiply_block(ahead.values[s], x, window.x + columns[s] * kBlock, sums, mirrored[s], all.mirror);
                    if (columns[s] == node) columns[s] = Tsmv<T>::kFake;
                }
                const bool more = step + kSteps < end;
                load(ahead, all, window, more ? step + kSteps : end, more ? end : next_end);
#pragma unroll
                for (int s = 0; s < kSteps; ++s) {
                    if (step + s >= end) break;
                    if (columns[s] != Tsmv<T>::kFake) {
#pragma unroll
                        for (int j = 0; j < kBlock; ++j) add_to(window.y + columns[s] * kBlock + j, mirrored[s][j]);
                    }
                    __syncthreads();
                }
            }
            if (node != Tsmv<T>::kNoNode) {
#pragma unroll
                for (int i = 0; i < kBlock; ++i) add_to(window.y + node * kBlock + i, sums[i]);
            }
            __syncthreads();
            step = end;
            end = next_end;
        }
    }

    // sums += block * column_x, and mirrored = the mirror image of the block * x.
    static __device__ __forceinline__ void multiply_block(const T* block, const T* x, const T* column_x, T* sums,
                                                          T* mirrored, Mirror<T> mirror) {
#pragma unroll
        for (int j = 0; j < kBlock; ++j) {
            const T x_j = gpu::load(column_x + j);
            mirrored[j] = 0;
#pragma unroll
            for (int i = 0; i < kBlock; ++i) {
                sums[i] += block[i * kBlock + j] * x_j;
                mirrored[j] += mirror(block[i * kBlock + j]) * x[i];
            }
        }
    }
};

// The poster's thread block: a thread goes on to its next row when the flag says so.
template <class T>
struct FlagWalk {
    static constexpr int kNodeRows = 1, kSteps = 4, kThreadsToHold = 1280;
    using Ahead = Slots<T, std::uint32_t, TsmvCoordinate::kFake, kSteps, 1>;

    static __device__ __forceinline__ void load(Ahead& ahead, const Tiles<T>& all, const TileWindow<T>& window,
                                                index_t first, index_t end) {
        ahead.load(window, all.coordinates, all.values, first, end);
    }

    static __device__ __forceinline__ void multiply(Ahead& ahead, const Tiles<T>& all, const TileWindow<T>& window,
                                                    const TsmvTile&, const TsmvTile&) {
        T sum = 0;
        for (index_t step = 0; step < window.steps; step += kSteps) {
            const Ahead now = ahead;
            load(ahead, all, window, step + kSteps, window.steps);
#pragma unroll
            for (int s = 0; s < kSteps; ++s) {
                if (step + s >= window.steps) break;
                const std::uint32_t packed = now.indices[s];
                if (packed != TsmvCoordinate::kFake) {
                    const auto row = TsmvCoordinate::row(packed), column = TsmvCoordinate::column(packed);
                    const T value = now.values[s][0];
                    sum += value * gpu::load(window.x + column);
                    if (column != row) add_to(window.y + column, all.mirror(value) * gpu::load(window.x + row));
                    if (packed & TsmvCoordinate::kLast) {
                        add_to(window.y + row, sum);
                        sum = 0;
                    }
                }
                __syncthreads();
            }
        }
    }
};

// The number of threads is a constant, so that the loops that fetch x and store y are faster than with blockDim.x.
template <class T, class Walk, int kThreads>
__global__ void __launch_bounds__(kThreads, Walk::kThreadsToHold < kThreads ? 1 : Walk::kThreadsToHold / kThreads)
    tsmv_block_per_tile(Tiles<T> all, Product<T> product) {
    constexpr int kBlock = Walk::kNodeRows;
    extern __shared__ double2 shared[];  // aligned for every T
    const TsmvTile tile = all.tiles[blockIdx.x], end = all.tiles[blockIdx.x + 1];
    const int halo = end.halo - tile.halo, nodes = halo + end.node - tile.node;
    const index_t first_step = all.slice_steps[tile.slice];
    TileWindow<T> window{.keeping = Keeping(product.policy)};
    window.x = reinterpret_cast<T*>(shared);
    window.y = window.x + nodes * kBlock;
    window.step_offsets = reinterpret_cast<index_t*>(window.y + nodes * kBlock);
    window.steps = all.slice_steps[end.slice] - first_step;

    for (int i = threadIdx.x; i <= window.steps; i += kThreads) {
        window.step_offsets[i] = all.step_offsets[first_step + i];
    }
    __syncthreads();
    typename Walk::Ahead ahead;
    // These loads are in flight while x is fetched. A tile of empty rows has no slice.
    if (window.steps > 0) Walk::load(ahead, all, window, 0, all.slice_steps[tile.slice + 1] - first_step);
    for (int i = threadIdx.x; i < nodes * kBlock; i += kThreads) {
        const int n = i / kBlock;
        const index_t node = n < halo ? all.halo_nodes[tile.halo + n] : tile.node + n - halo;
        const index_t row = row_of<kBlock>(all.node_rows, node, i % kBlock);
        store(window.x + i, row >= 0 ? gpu::load(product.x + row) : T(0));
        store(window.y + i, T(0));
    }
    __syncthreads();
    if (window.steps > 0) Walk::multiply(ahead, all, window, tile, end);
    let_next_kernel_start();
    for (int i = threadIdx.x; i < halo * kBlock; i += kThreads) {
        store(all.halo_sums + std::int64_t(tile.halo) * kBlock + i, gpu::load(window.y + i));
    }
    for (int i = threadIdx.x; i < (nodes - halo) * kBlock; i += kThreads) {
        const index_t row = row_of<kBlock>(all.node_rows, tile.node + i / kBlock, i % kBlock);
        if (row >= 0) store_row(product, row, gpu::load(window.y + halo * kBlock + i));
    }
}

// A thread takes a row that lies in halos, or its whole warp does, if it lies in many.
template <class T, int kBlock>
__global__ void tsmv_merge(index_t rows, const index_t* __restrict__ nodes, const index_t* __restrict__ node_rows,
                           const index_t* __restrict__ offsets, const index_t* __restrict__ sources,
                           const T* __restrict__ halo_sums, Product<T> product) {
    constexpr index_t kMany = 32;
    const auto i = static_cast<index_t>(blockIdx.x * blockDim.x + threadIdx.x);
    const int lane = threadIdx.x % kWarp, part = i % kBlock;
    const index_t row = i < rows ? row_of<kBlock>(node_rows, nodes[i / kBlock], part) : -1;
    const index_t begin = row >= 0 ? offsets[i / kBlock] : 0, end = row >= 0 ? offsets[i / kBlock + 1] : 0;
    wait_for_kernel_before();
    T sum = 0;
    if (end - begin <= kMany) {
        for (index_t k = begin; k < end; ++k) sum += gpu::load(halo_sums + std::int64_t(sources[k]) * kBlock + part);
    }
    unsigned long_rows = __ballot_sync(kAllLanes, end - begin > kMany);
    for (; long_rows != 0; long_rows &= long_rows - 1) {
        const int owner = __ffs(static_cast<int>(long_rows)) - 1;
        const index_t from = __shfl_sync(kAllLanes, begin, owner), to = __shfl_sync(kAllLanes, end, owner);
        const int its_part = __shfl_sync(kAllLanes, part, owner);
        T its_sum = 0;
        for (index_t k = from + lane; k < to; k += kWarp) {
            its_sum += gpu::load(halo_sums + std::int64_t(sources[k]) * kBlock + its_part);
        }
        its_sum = shuffle_from(sum_lanes(its_sum, kWarp), 0);
        if (lane == owner) sum = its_sum;
    }
    if (row >= 0) add_to(product.y + product.row_of_y(row), scaled(product.alpha, sum));
}

template <class T, class Walk, int kThreads>
void launch_tiles(const Tsmv<T>& tsmv, const Tiles<T>& all, const Product<T>& product, Stream stream) {
    const auto kernel = tsmv_block_per_tile<T, Walk, kThreads>;
    const auto bytes = static_cast<int>(tsmv.shared_bytes);
    allow_shared_bytes(kernel, bytes);
    kernel<<<static_cast<unsigned>(tsmv.tile_count()), kThreads, bytes, native(stream)>>>(all, product);
    check_launch("tsmv_block_per_tile");
}

template <class T, class Walk>
void launch(const Tsmv<T>& tsmv, const Tiles<T>& all, const Product<T>& product, Stream stream) {
    dispatch<64, 128, 256, 512>("threads", tsmv.tuning.threads,
                                [&]<int kThreads>() { launch_tiles<T, Walk, kThreads>(tsmv, all, product, stream); });
    constexpr int kThreads = 128, kBlock = Walk::kNodeRows;
    const auto rows = static_cast<index_t>(tsmv.merge_nodes.size()) * kBlock;
    if (rows == 0) return;
    launch_early(tsmv_merge<T, kBlock>, {blocks_for(rows, kThreads), kThreads}, stream, rows, tsmv.merge_nodes.data(),
                 all.node_rows, tsmv.merge_offsets.data(), tsmv.merge_sources.data(),
                 static_cast<const T*>(all.halo_sums), product);
}

template <class T, int kBlock>
void launch_slices(const Tsmv<T>& tsmv, const Tiles<T>& all, const Product<T>& product, Stream stream) {
    dispatch<1, 2, 4>("depth", tsmv.tuning.depth,
                      [&]<int kDepth>() { launch<T, SliceWalk<T, kBlock, kDepth>>(tsmv, all, product, stream); });
}

}  // namespace

template <class T>
void Tsmv<T>::spmv_cuda(const Product<T>& product, Stream stream) const {
    if (rows == 0) return;
    const Tiles<T> all{tiles.data(),
                       node_rows.data(),
                       halo_nodes.data(),
                       slice_steps.data(),
                       thread_nodes.data(),
                       step_offsets.data(),
                       columns.data(),
                       coordinates.data(),
                       values.data(),
                       static_cast<T*>(product.scratch),
                       mirror()};
    if (tuning.variant == TsmvVariant::kPoster) {
        launch<T, FlagWalk<T>>(*this, all, product, stream);
    } else {
        dispatch<1, 2, 3>("block", tuning.block,
                          [&]<int kBlock>() { launch_slices<T, kBlock>(*this, all, product, stream); });
    }
    if (remainder.nnz > 0) remainder.spmv_cuda(remainder_product(product), stream);
}

#define INSTANTIATE(T) template void Tsmv<T>::spmv_cuda(const Product<T>&, Stream) const;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
