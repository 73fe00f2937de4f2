#include "core/dispatch.hpp"
#include "formats/packed_sell/layout.hpp"
#include "gpu/cuda/check.hpp"
#include "gpu/cuda/warp.cuh"

namespace spmvgpu {

namespace {

using namespace gpu;
using namespace packed;

constexpr int kBlockWarps = kBlockSize / kWarp;
// Slots of a warp whose elements are loaded before the first is used, a batch. Their bases, masks and constants come in
// one access each, or two.
template <class T>
constexpr int kSlotsInFlight = sizeof(T) == 16 ? 2 : 4;

static_assert(kLanes == kWarp);

template <class T>
struct Packed {
    index_t rows, slices;
    const HeadWords* heads;
    const Byte* stream;
    const T* dictionary;
    const index_t* permutation;
    std::uint64_t policy;
};

__device__ __forceinline__ HeadWords load_head(const void* from) {
    const auto words = __ldg(static_cast<const ulonglong2*>(from));
    return {words.x, words.y};
}

// Neighbouring items that all lanes read, of slices that may share them: they stay in the caches. A batch of them
// begins at a multiple of its size, or of 16 bytes.
template <int kCount, class Item>
__device__ __forceinline__ void load_batch(const Byte* from, Item (&items)[kCount]) {
    constexpr int kBytes = kCount * sizeof(Item);
    using Access = std::conditional_t<kBytes % 16 == 0, uint4, uint2>;
    constexpr int kAccesses = kBytes / sizeof(Access);
    static_assert(kBytes % sizeof(Access) == 0 && kBytes <= kGranule);
    Access accesses[kAccesses];
#pragma unroll
    for (int i = 0; i < kAccesses; ++i) accesses[i] = __ldg(reinterpret_cast<const Access*>(from) + i);
    memcpy(items, accesses, kBytes);
}
template <class T>
__device__ __forceinline__ T load_constant(const Byte* from) {
    T value[1];
    if constexpr (sizeof(T) >= 8) {
        load_batch(from, value);
    } else {
        value[0] = __ldg(reinterpret_cast<const T*>(from));
    }
    return value[0];
}

// The values of the lanes of a slot: one constant, an element for each, or one or the other.
enum class Values { kConstants, kElements, kEither };

// The sum of a row, lane by lane, over the batches first, first + step, ... of a group. All lanes of a warp have the
// same slots, and differ only in their entries.
template <IndexMode kIndex, Values kValues, ValueMode kMode, class T>
__device__ __forceinline__ T sum_group(const Packed<T>& matrix, const Head& head, const Byte* group, int first,
                                       int step, const T* x, T sum) {
    constexpr int kInFlight = kSlotsInFlight<T>;
    constexpr int kIndexBytes = index_bytes(kIndex), kValueBytes = value_bytes<T>(kMode);
    // True if zero times the element of a missing value may not be zero: where a lane has no entry in a slot with a
    // constant. Elements of such lanes are zeros, and so are constants behind the last slot.
    constexpr bool kGuarded =
        kMode == ValueMode::kDictionary || (kValues != Values::kElements && kIndex != IndexMode::kShared);
    const int lane = threadIdx.x % kWarp;
    const Sections at = sections_of<T>(head);
    const Keeping keeping(matrix.policy);
    const auto load_once = [&]<class Element>(const Byte* from) {
        return keeping.load_once(reinterpret_cast<const Element*>(from));
    };
#pragma unroll 1
    for (int k = first * kInFlight; k < head.slots; k += step * kInFlight) {
        const int left = head.slots - k;
        const std::uint32_t before = (1u << k) - 1;  // the slots of earlier batches
        std::uint32_t offsets[kInFlight];
        bool has_entry[kInFlight];
        load_batch(group + (at.bases + 4 * k), offsets);
        T values[kInFlight];
        Bits<T> bits[kInFlight];
        const std::uint32_t constants = head.constant >> k;
        if constexpr (kValues == Values::kConstants) {
            load_batch(group + (at.constants + static_cast<int>(sizeof(T)) * k), values);
        } else if constexpr (kValues == Values::kElements) {
            const Byte* const from = group + (at.values + kValueBytes * (kLanes * k + lane));
#pragma unroll
            for (int i = 0; i < kInFlight; ++i) {
                bits[i] = {};
                if (i < left) bits[i] = load_bits<T, kValueBytes>(from + kValueBytes * kLanes * i, load_once);
            }
        } else {
            const int known = __popc(head.constant & before);
            int constant = at.constants + static_cast<int>(sizeof(T)) * known;
            int element = at.values + kValueBytes * (kLanes * (k - known) + lane);
#pragma unroll
            for (int i = 0; i < kInFlight; ++i) {
                bits[i] = {};
                if (i >= left) continue;
                if ((constants >> i & 1) != 0) {
                    bits[i] = std::bit_cast<Bits<T>>(load_constant<T>(group + constant));
                    constant += sizeof(T);
                } else {
                    bits[i] = load_bits<T, kValueBytes>(group + element, load_once);
                    element += kValueBytes * kLanes;
                }
            }
        }
        if constexpr (kIndex == IndexMode::kMasks) {
            std::uint32_t masks[kInFlight];  // zeros behind the last slot
            load_batch(group + (at.indices + 4 * k), masks);
#pragma unroll
            for (int i = 0; i < kInFlight; ++i) has_entry[i] = (masks[i] >> lane & 1) != 0;
        } else {
#pragma unroll
            for (int i = 0; i < kInFlight; ++i) has_entry[i] = i < left;
            if constexpr (kIndexBytes > 0) {
                // All slots of a batch have offsets, those behind the last slot too, or none has.
                if ((head.shared >> k & 1) == 0) {
                    const int sets = __popc(~head.shared & before);
                    const Byte* const from = group + (at.indices + kIndexBytes * (kLanes * sets + lane));
#pragma unroll
                    for (int i = 0; i < kInFlight; ++i) {
                        const std::uint32_t offset =
                            load_once.template operator()<Offset<kIndex>>(from + kIndexBytes * kLanes * i);
                        has_entry[i] = offset != kNoEntry<kIndex>;
                        offsets[i] += offset;
                    }
                }
            }
        }
        T gathered[kInFlight];
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) {
            gathered[i] = has_entry[i] ? load(x + static_cast<std::int32_t>(offsets[i])) : T(0);
        }
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) {
            if (kGuarded && !has_entry[i]) continue;
            if constexpr (kValues != Values::kConstants) {
                const bool is_constant = kValues == Values::kEither && (constants >> i & 1) != 0;
                const ValueMode mode = is_constant ? ValueMode::kFull : kMode;
                values[i] = value_of<T>(mode, bits[i], matrix.dictionary);
            }
            sum += values[i] * gathered[i];
        }
    }
    return sum;
}

// The sum for a group with any mode of values.
template <IndexMode kIndex, class T>
__device__ __forceinline__ T sum_group_of(const Packed<T>& matrix, const Head& head, const Byte* group, int first,
                                          int step, const T* x, T sum) {
    const auto with_elements = [&]<ValueMode kMode>() {
        return head.constant == 0
                   ? sum_group<kIndex, Values::kElements, kMode>(matrix, head, group, first, step, x, sum)
                   : sum_group<kIndex, Values::kEither, kMode>(matrix, head, group, first, step, x, sum);
    };
    switch (head.value) {
        case ValueMode::kConstant:
            return sum_group<kIndex, Values::kConstants, ValueMode::kFull>(matrix, head, group, first, step, x, sum);
        case ValueMode::kFull:
            return with_elements.template operator()<ValueMode::kFull>();
        default:
            return with_elements.template operator()<ValueMode::kDictionary>();
    }
}
template <class T>
__device__ __forceinline__ T sum_any_group(const Packed<T>& matrix, const Head& head, const Byte* group, int first,
                                           int step, const T* x, T sum) {
    switch (head.index) {
        case IndexMode::kShared:
            return sum_group_of<IndexMode::kShared>(matrix, head, group, first, step, x, sum);
        case IndexMode::kMasks:
            return sum_group_of<IndexMode::kMasks>(matrix, head, group, first, step, x, sum);
        case IndexMode::k8:
            return sum_group_of<IndexMode::k8>(matrix, head, group, first, step, x, sum);
        case IndexMode::k16:
            return sum_group_of<IndexMode::k16>(matrix, head, group, first, step, x, sum);
        default:
            return sum_group_of<IndexMode::k32>(matrix, head, group, first, step, x, sum);
    }
}

// A pointer whose origin is hidden from the compiler, which otherwise adds the shared part of the address to the
// differing part anew for each slot.
template <class T>
__device__ __forceinline__ const T* as_it_is(const T* pointer) {
#ifdef __CUDA_ARCH__
    asm("" : "+l"(pointer));
    __builtin_assume(__isGlobal(pointer));
#endif
    return pointer;
}

// A lane takes a row, and 1 << shift warps a slice, of which each takes batches of every group in turn; kAlone: one
// warp. Sums meet in shared memory, in the order of the warps.
template <class T, bool kAlone>
__global__ void __launch_bounds__(kBlockSize, 4)
    packed_sell_lane_per_row(Packed<T> matrix, int shift, Product<T> product) {
    const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
    const int warps = kAlone ? 1 : 1 << shift;
    const int first = kAlone ? 0 : warp & (warps - 1);
    // The number is below 2^29, for there are fewer than 2^26 slices; and a position may be 31 beyond the last row.
    const unsigned place = blockIdx.x * kBlockWarps + warp;
    const unsigned slice = kAlone ? place : place >> shift;
    const unsigned position = slice * kWarp + lane;
    const bool is_slice = slice < static_cast<unsigned>(matrix.slices);
    const bool is_row = position < static_cast<unsigned>(matrix.rows);
    index_t row = 0;  // lanes beyond the last row have one too, and no entries
    T sum = 0;
    if (is_slice) {
        HeadWords words = load_head(matrix.heads + slice);
        if (is_row) row = matrix.permutation ? matrix.permutation[position] : static_cast<index_t>(position);
        const T* const x = as_it_is(product.x + row);  // the entry on the diagonal
        Head head = head_of(words);
        const Byte* const start = matrix.stream + head.position * kGranule;
        const Byte* group = start;
#pragma unroll 1
        while (true) {
            if (head.more) words = load_head(group);  // loaded while this group is processed
            sum = sum_any_group(matrix, head, group, first, warps, x, sum);
            if (!head.more) break;
            head = head_of(words);
            group = start + head.position * kGranule;
        }
    }
    if constexpr (!kAlone) {
        __shared__ alignas(sizeof(T)) T sums[kBlockWarps][kWarp];
        store(&sums[warp][lane], sum);
        __syncthreads();
        if (first != 0) return;
        for (int w = 1; w < warps; ++w) sum += load(&sums[warp + w][lane]);
    }
    if (is_row) store_row(product, row, sum);
}

}  // namespace

template <class T>
void PackedSell<T>::spmv_cuda(const Product<T>& product, Stream stream) const {
    if (rows == 0) return;
    const Packed<T> matrix{rows,
                           slices,
                           reinterpret_cast<const HeadWords*>(heads.data()),
                           this->stream.data(),
                           dictionary.data(),
                           permutation.data(),
                           product.policy};
    dispatch<1, 2, 4, 8>("warps_per_slice", tuning.warps_per_slice, [&]<int kWarps>() {
        const unsigned blocks = blocks_for(std::int64_t(slices) * kWarps, kBlockWarps);
        packed_sell_lane_per_row<T, kWarps == 1>
            <<<blocks, kBlockSize, 0, native(stream)>>>(matrix, std::bit_width(unsigned(kWarps)) - 1, product);
        check_launch("packed_sell_lane_per_row");
    });
}

#define INSTANTIATE(T) template void PackedSell<T>::spmv_cuda(const Product<T>&, Stream) const;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
