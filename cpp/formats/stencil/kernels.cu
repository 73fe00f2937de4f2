#include "core/dispatch.hpp"
#include "formats/stencil/layout.hpp"
#include "formats/stencil/rows.hpp"
#include "gpu/cuda/check.hpp"
#include "gpu/cuda/warp.cuh"

namespace spmvgpu {

namespace {

using namespace gpu;

constexpr int kTogether = Stencil<float>::kTogether;

// Slots from a multiple of kTogether on, in as few loads as possible.
template <class T>
__device__ __forceinline__ void load_slots(const StencilRows<T>& stencils, index_t slot, index_t (&offsets)[kTogether],
                                           T (&values)[kTogether]) {
    static_assert(kTogether * sizeof(index_t) == sizeof(int4));
    constexpr int kPerLoad = sizeof(int4) / sizeof(T);
    struct alignas(16) Loaded {
        T values[kPerLoad];
    };
    const int4 four = *reinterpret_cast<const int4*>(stencils.offsets + slot);
    offsets[0] = four.x, offsets[1] = four.y, offsets[2] = four.z, offsets[3] = four.w;
#pragma unroll
    for (int i = 0; i < kTogether; i += kPerLoad) {
        const Loaded loaded = *reinterpret_cast<const Loaded*>(stencils.values + slot + i);
#pragma unroll
        for (int j = 0; j < kPerLoad; ++j) values[i + j] = loaded.values[j];
    }
}

// A pointer to global memory whose origin is hidden from the compiler, which otherwise computes it anew for each of
// several loads, and of several terms: four instructions in place of one.
template <class T>
__device__ __forceinline__ const T* as_it_is(const T* pointer) {
    std::size_t address = __cvta_generic_to_global(pointer);
    asm("" : "+l"(address));
    return static_cast<const T*>(__cvta_global_to_generic(address));
}

// Brings the cache line of an address in global memory into the L2.
__device__ __forceinline__ void fetch_early(const void* address) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(address)));
}

// A thread's row and its kind. The row -1, without entries, stands for a missing one.
struct Numbered {
    index_t number = -1;
    RowKind kind{0, 0, 0, kNoOwner, 0};

    static constexpr std::uint16_t kNoOwner = 65535;  // no kind has this number

    __device__ bool is_there() const { return number >= 0; }
    __device__ bool is_whole() const { return kind.owner == number; }
    __device__ bool is_like(const RowKind& other) const { return kind.owner == other.owner; }
};

template <class T>
__device__ __forceinline__ Numbered numbered(const StencilRows<T>& stencils, index_t number) {
    return number < 0 ? Numbered{} : Numbered{number, stencils.kind(number)};
}

// Adds four slots of rows that have the same stencil and lie a block apart, where has(i, r) says whether row r has slot
// i; x points to the entry of the first row. If all values are finite, missing entries are multiplied by zero, so that
// there are fewer branches.
template <bool kFinite, int kBlock, int kRows, class T, class Has>
__device__ __forceinline__ void add_slots(const StencilRows<T>& stencils, index_t slot, const T* x, Has has,
                                          T (&sums)[kRows]) {
    index_t offsets[kTogether];
    T values[kTogether], gathered[kTogether][kRows];
    load_slots(stencils, slot, offsets, values);
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
        const T* const from = as_it_is(x + offsets[i]);
#pragma unroll
        for (int r = 0; r < kRows; ++r) gathered[i][r] = has(i, r) ? load(from + r * kBlock) : T(0);
    }
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            if (kFinite || has(i, r)) sums[r] += values[i] * gathered[i][r];
        }
    }
}

// The sums of the rows, out of kRows, with the stencil of `kind`, and zeros for the others. A whole warp calls this.
template <bool kFinite, int kBlock, int kRows, class T>
__device__ __forceinline__ void sum_rows(const StencilRows<T>& stencils, const RowKind& kind,
                                         const Numbered (&rows)[kRows], const T* x, T (&sums)[kRows]) {
    bool are_whole = true;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
        are_whole = are_whole && rows[r].is_like(kind) && (rows[r].is_whole() || !rows[r].is_there());
        sums[r] = T(0);
    }
    index_t k = 0;
    if (__all_sync(kAllLanes, are_whole)) {
        const auto has_all = [](int, int) { return true; };
        for (; k + kTogether <= kind.length; k += kTogether) {
            add_slots<true, kBlock>(stencils, kind.begin + k, x, has_all, sums);
        }
        const index_t left = kind.length - k;
        const auto is_left = [left](int i, int) { return i < left; };
        if (left > 0) add_slots<kFinite, kBlock>(stencils, kind.begin + k, x, is_left, sums);
        return;
    }
#pragma unroll 1
    for (index_t word = 0; k < kind.length; ++word) {
        Word masks[kRows];
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            masks[r] = rows[r].is_like(kind) ? stencils.masks[rows[r].kind.masks + word] : 0;
        }
        const auto has = [&masks](int i, int r) { return (masks[r] >> i & 1) != 0; };
#pragma unroll 1
        for (const index_t end = min(k + static_cast<index_t>(kWordBits), kind.length); k < end; k += kTogether) {
            add_slots<kFinite, kBlock>(stencils, kind.begin + k, x, has, sums);
#pragma unroll
            for (int r = 0; r < kRows; ++r) masks[r] >>= kTogether;
        }
    }
}

template <bool kFinite, class T>
__device__ __forceinline__ T sum_row(const StencilRows<T>& stencils, index_t number, const T* x) {
    const Numbered row[1] = {numbered(stencils, number)};
    T sum[1];
    sum_rows<kFinite, 1>(stencils, row[0].kind, row, as_it_is(x), sum);
    return sum[0];
}

// Finds the slots of a third that each layer needs that rows of a thread reach, a bit each, if all rows with the
// stencil of `kind` agree on the slots that they lack at a place. Returns false if they do not.
template <int kRows, class T>
__device__ __forceinline__ bool find_needed(const StencilRows<T>& stencils, const RowKind& kind,
                                            const Numbered (&rows)[kRows], Word (&needed)[kRows + 2]) {
    if (kind.third == 0) return false;
    Word there[3][kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
        const Word* const words = stencils.masks + rows[r].kind.masks + words_for(kind.length);
#pragma unroll
        for (int third = 0; third < 3; ++third) there[third][r] = rows[r].is_like(kind) ? words[third] : 0;
    }
    bool agree = true;
#pragma unroll
    for (int layer = 0; layer < kRows + 2; ++layer) {
        needed[layer] = 0;
#pragma unroll
        for (int r = max(layer - 2, 0); r < min(layer + 1, kRows); ++r) needed[layer] |= there[layer - r][r];
#pragma unroll
        for (int r = max(layer - 2, 0); r < min(layer + 1, kRows); ++r) {
            agree = agree && (there[layer - r][r] == needed[layer] || !rows[r].is_like(kind));
        }
    }
    return agree;
}

// The sums of kRows rows, each a layer after the one before, that have a stencil of three layers. Each place is loaded
// once for the rows that reach it; rows with another stencil get any sum.
template <int kRows, class T>
__device__ __forceinline__ void sum_layers(const StencilRows<T>& stencils, const RowKind& kind, const T* x,
                                           index_t layer_rows, const Word (&needed)[kRows + 2], T (&sums)[kRows]) {
    constexpr int kLayers = kRows + 2;
    const T* layers[kLayers];
#pragma unroll
    for (int layer = 0; layer < kLayers; ++layer) layers[layer] = as_it_is(x + std::int64_t(layer) * layer_rows);
#pragma unroll
    for (int r = 0; r < kRows; ++r) sums[r] = T(0);
    const index_t* const offsets = as_it_is(stencils.offsets + kind.begin);
    const T* const values = as_it_is(stencils.values + kind.begin);
#pragma unroll 2
    for (index_t k = 0; k < kind.third; ++k) {
        const index_t offset = offsets[k];
        T gathered[kLayers];
#pragma unroll
        for (int layer = 0; layer < kLayers; ++layer) {
            gathered[layer] = (needed[layer] >> k & 1) != 0 ? load(as_it_is(layers[layer] + offset)) : T(0);
        }
#pragma unroll
        for (int third = 0; third < 3; ++third) {
            const T value = load(values + third * kind.third + k);
#pragma unroll
            for (int r = 0; r < kRows; ++r) sums[r] += value * gathered[r + third];
        }
    }
}

// Threads fetch early for others that come this many rows later, which otherwise wait for memory twice: for the kind of
// a row, and then for its x. No x is fetched from col_end on. Nothing is fetched if `rows` is 0.
struct Ahead {
    index_t rows, col_end;
};

// A thread takes kRows rows, a block apart or, if kLayers, a layer. First it multiplies the rows with its most frequent
// stencil, and reads the slots once, together with the other lanes of its warp if they have the same one; then it takes
// the others one by one. With kLayers, the compiler would leave only 7 blocks to a processor; 0 lets it choose.
template <bool kFinite, bool kLayers, int kBlock, int kRows, class T>
__global__ void __launch_bounds__(kBlock, kLayers && sizeof(T) <= sizeof(double) ? 8 : 0)
    stencil_thread_per_rows(StencilRows<T> stencils, index_t rows, index_t rows_apart, std::int64_t threads,
                            Ahead ahead, Product<T> product) {
    const std::int64_t thread = std::int64_t(blockIdx.x) * kBlock + threadIdx.x;
    const std::int64_t apart = kLayers ? rows_apart : kBlock;
    const auto group = static_cast<unsigned>(kLayers ? static_cast<unsigned>(thread) / rows_apart : blockIdx.x);
    const std::int64_t first = thread + group * (apart * (kRows - 1));
    index_t numbers[kRows];
    Numbered own[kRows];
    if (!kLayers && ahead.rows > 0) {
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            const std::int64_t later = first + r * apart + ahead.rows;
            if (later < rows) fetch_early(stencils.kinds + later);
        }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) numbers[r] = first + r * apart < rows ? stencils.kinds[first + r * apart] : -1;
#pragma unroll
    for (int r = 0; r < kRows; ++r) own[r] = numbered(stencils, numbers[r]);
    RowKind kind = own[0].kind;
    if constexpr (kRows > 2) {
        if (!own[1].is_like(own[0].kind) && own[2].is_like(own[1].kind)) kind = own[1].kind;
    }
    Word needed[kRows + 2];
    if constexpr (kLayers) {
        if (!__all_sync(kAllLanes, find_needed(stencils, kind, own, needed))) kind = Numbered().kind;
    }
    unsigned left = 0;
#pragma unroll
    for (int r = 0; r < kRows; ++r) left |= unsigned(own[r].is_there() && !own[r].is_like(kind)) << r;
    wait_for_kernel_before();
    if (!kLayers && ahead.rows > 0 && kind.length > 0) {
        const std::int64_t last = stencils.offsets[kind.begin + kind.length - 1];
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            const std::int64_t col = first + r * apart + last + ahead.rows;
            const bool reads_last = own[r].is_like(kind) && own[r].is_whole();  // so x is there from here to col_end
            if (reads_last && col < ahead.col_end) fetch_early(product.x + col);
        }
    }
    T sums[kRows];
    if constexpr (kLayers) {
        sum_layers(stencils, kind, product.x + first, rows_apart, needed, sums);
    } else {
        sum_rows<kFinite, kBlock>(stencils, kind, own, as_it_is(product.x + first), sums);
    }
    if constexpr (kRows > 1) {
        for (; __any_sync(kAllLanes, left != 0); left &= left - 1) {
            const int next = left != 0 ? lowest_bit(left) : -1;
            const std::int64_t row = first + next * apart;
            const T sum = sum_row<kFinite>(stencils, next >= 0 ? stencils.kinds[row] : -1, product.x + row);
#pragma unroll
            for (int r = 0; r < kRows; ++r) {
                if (r == next) sums[r] = sum;
            }
        }
    }
    DotParts<T> parts;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
        const std::int64_t row = first + r * apart;
        if (row >= rows) break;
        store_row(product, static_cast<index_t>(row), sums[r]);
        if (product.dots != nullptr) parts.add(product, row, sums[r]);
    }
    if (product.dots != nullptr) parts.leave(product, thread / kWarp, thread < threads);
}

}  // namespace

template <class T>
void Stencil<T>::spmv_cuda(const Product<T>& product, Stream stream) const {
    if (rows == 0) return;
    // Fetching early pays where vectors leave the L2 between products. Where they stay there, it costs time.
    constexpr index_t kRowsAhead = 1 << 17;
    constexpr double kStays = 0.65;
    int ordinal = 0;
    check(cudaGetDevice(&ordinal), "cudaGetDevice");
    const double bytes = rows * (2.0 * sizeof(T) + sizeof(std::uint16_t));
    const bool stays = bytes <= kStays * static_cast<double>(properties(ordinal).l2_bytes);
    const Ahead ahead{stays ? 0 : kRowsAhead, col_end};
    const auto launch = [&](auto* kernel) {
        const auto block = static_cast<unsigned>(block_rows());
        launch_early(kernel, {blocks_for(threads(), block), block}, stream, rows_of(*this), rows, rows_apart(),
                     threads(), ahead, product);
    };
    dispatch<kBlockRows, kBlockRowsOfLong>("rows of a block", block_rows(), [&]<int kBlock>() {
        if (!is_finite) return launch(stencil_thread_per_rows<false, false, kBlock, 1, T>);
        dispatch<1, 2, 4>("rows_per_thread", tuning.rows_per_thread, [&]<int kRows>() {
            if constexpr (kRows > 1 && kBlock == kBlockRows) {
                if (layer_rows > 0) return launch(stencil_thread_per_rows<true, true, kBlock, kRows, T>);
            }
            launch(stencil_thread_per_rows<true, false, kBlock, kRows, T>);
        });
    });
}

#define INSTANTIATE(T) template void Stencil<T>::spmv_cuda(const Product<T>&, Stream) const;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
