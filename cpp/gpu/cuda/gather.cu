#include <type_traits>

#include "gpu/cuda/check.hpp"
#include "gpu/cuda/warp.cuh"
#include "gpu/gather.hpp"
#include "gpu/runtime.hpp"

namespace spmvgpu::gpu {

namespace {

template <class T>
__global__ void gather_thread_per_element(T* __restrict__ to, const T* __restrict__ from,
                                          const index_t* __restrict__ map, index_t count, std::int64_t stride) {
    const std::int64_t i = std::int64_t(blockIdx.x) * kBlockSize + threadIdx.x;
    if (i < count) store(to + i, load(from + (map == nullptr ? i : map[i]) * stride));
}

template <class T>
__global__ void scatter_thread_per_element(T* __restrict__ to, const T* __restrict__ from,
                                           const index_t* __restrict__ map, index_t count, T beta,
                                           std::int64_t stride) {
    const std::int64_t i = std::int64_t(blockIdx.x) * kBlockSize + threadIdx.x;
    if (i >= count) return;
    T* const target = to + (map == nullptr ? i : map[i]) * stride;
    const T added = load(from + i);
    store(target, beta == T(0) ? added : added + scaled(beta, load(target)));
}

constexpr int kPerThread = 8;  // elements, all loaded before the first is used

// A tile of kRows entries of up to kColumns vectors in shared memory, row by row. Neighbouring threads traverse it
// along both sides, so the rows are padded by one place: no two lanes meet in a bank.
template <class T, int kColumns>
struct TransposeTile {
    static constexpr int kRows = kBlockSize * kPerThread / kColumns;
    static constexpr int kPitch = kColumns + 1;
    static constexpr int kPlaces = kRows * kPitch;
    static_assert(dynamic_bytes<T, kPlaces>() == 0, "a launch asks for no dynamic shared memory");

    struct Place {
        int row, column;
        __device__ int in_tile() const { return row * kPitch + column; }
    };
    // The i-th element of the calling thread, where neighbours have neighbouring entries of a vector, or entries of
    // neighbouring vectors.
    static __device__ Place along_column(int i) {
        const int element = i * kBlockSize + threadIdx.x;
        return {element % kRows, element / kRows};
    }
    static __device__ Place along_row(int i) {
        const int element = i * kBlockSize + threadIdx.x;
        return {element / kColumns, element % kColumns};
    }
};

// A block takes a tile, as in the kernel below.
template <class T, int kColumns>
__global__ void __launch_bounds__(kBlockSize)
    columns_to_rows_block_per_tile(T* __restrict__ to, Columns<const T> from, const index_t* __restrict__ map,
                                   index_t length) {
    using Own = TransposeTile<T, kColumns>;
    T* const tile = shared_array<T, Own::kPlaces>();
    const std::int64_t first_row = std::int64_t(blockIdx.x) * Own::kRows;
    const auto is_inside = [&](const typename Own::Place& place) {
        return first_row + place.row < length && place.column < from.count;
    };
    const bool rows_are_there = from.column_stride == 1;  // true if only the order of entries differs
    const auto loaded = [&](int i) { return rows_are_there ? Own::along_row(i) : Own::along_column(i); };
    T held[kPerThread];
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
        const auto place = loaded(i);
        if (is_inside(place)) {
            const std::int64_t row = map == nullptr ? first_row + place.row : map[first_row + place.row];
            held[i] = load_once(from.data + row * from.row_stride + place.column * from.column_stride);
        }
    }
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
        const auto place = loaded(i);
        if (is_inside(place)) store(tile + place.in_tile(), held[i]);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
        const auto place = Own::along_row(i);
        if (!is_inside(place)) continue;
        store(to + (first_row + place.row) * from.count + place.column, load(tile + place.in_tile()));
    }
}

template <class T, int kColumns>
__global__ void __launch_bounds__(kBlockSize)
    rows_to_columns_block_per_tile(Columns<T> to, const T* __restrict__ from, const index_t* __restrict__ map,
                                   index_t length, T beta) {
    using Own = TransposeTile<T, kColumns>;
    T* const tile = shared_array<T, Own::kPlaces>();
    const std::int64_t first_row = std::int64_t(blockIdx.x) * Own::kRows;
    const auto is_inside = [&](const typename Own::Place& place) {
        return first_row + place.row < length && place.column < to.count;
    };
    T held[kPerThread];
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
        const auto place = Own::along_row(i);
        if (is_inside(place)) held[i] = load_once(from + (first_row + place.row) * to.count + place.column);
    }
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
        const auto place = Own::along_row(i);
        if (is_inside(place)) store(tile + place.in_tile(), held[i]);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
        const auto place = Own::along_column(i);
        if (!is_inside(place)) continue;
        const std::int64_t row = first_row + place.row;
        T* const target = to.data + (map == nullptr ? row : map[row]) * to.row_stride + place.column * to.column_stride;
        const T added = load(tile + place.in_tile());
        store(target, beta == T(0) ? added : added + scaled(beta, load(target)));
    }
}

// Calls launch.template operator()<kColumns>(blocks) for tiles with this many columns.
template <class T, class Launch>
void with_tile(index_t columns, index_t length, Launch&& launch) {
    const auto with = [&]<int kColumns>() {
        launch.template operator()<kColumns>(blocks_for(length, TransposeTile<T, kColumns>::kRows));
    };
    if (columns <= 4) return with.template operator()<4>();
    if (columns <= 8) return with.template operator()<8>();
    if (columns <= 16) return with.template operator()<16>();
    with.template operator()<kMaxColumns>();
}

}  // namespace

template <class T>
void gather_on_gpu(T* to, const Columns<const T>& from, const index_t* map, index_t length, int ordinal,
                   Stream stream) {
    if (length == 0) return;
    const DeviceGuard guard(ordinal);
    if (from.count == 1) {
        gather_thread_per_element<<<blocks_for(length, kBlockSize), kBlockSize, 0, native(stream)>>>(
            to, from.data, map, length, from.row_stride);
        return check_launch("gather_thread_per_element");
    }
    if constexpr (!std::is_same_v<T, index_t>) {  // indices have one vector only
        with_tile<T>(from.count, length, [&]<int kColumns>(unsigned blocks) {
            columns_to_rows_block_per_tile<T, kColumns>
                <<<blocks, kBlockSize, 0, native(stream)>>>(to, from, map, length);
            check_launch("columns_to_rows_block_per_tile");
        });
    }
}

template <class T>
void scatter_on_gpu(const Columns<T>& to, const T* from, const index_t* map, index_t length, T beta, int ordinal,
                    Stream stream) {
    if (length == 0) return;
    const DeviceGuard guard(ordinal);
    if (to.count == 1) {
        scatter_thread_per_element<<<blocks_for(length, kBlockSize), kBlockSize, 0, native(stream)>>>(
            to.data, from, map, length, beta, to.row_stride);
        return check_launch("scatter_thread_per_element");
    }
    with_tile<T>(to.count, length, [&]<int kColumns>(unsigned blocks) {
        rows_to_columns_block_per_tile<T, kColumns>
            <<<blocks, kBlockSize, 0, native(stream)>>>(to, from, map, length, beta);
        check_launch("rows_to_columns_block_per_tile");
    });
}

template void gather_on_gpu(index_t*, const Columns<const index_t>&, const index_t*, index_t, int, Stream);
#define INSTANTIATE(T)                                                                              \
    template void gather_on_gpu(T*, const Columns<const T>&, const index_t*, index_t, int, Stream); \
    template void scatter_on_gpu(const Columns<T>&, const T*, const index_t*, index_t, T, int, Stream);
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu::gpu
