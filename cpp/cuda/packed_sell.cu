#include "core/dispatch.hpp"
#include "cuda/check.hpp"
#include "cuda/warp.cuh"
#include "formats/packed_sell.hpp"

namespace spmvgpu {

namespace {

using namespace cuda;
using namespace packed;

constexpr int kBlockSize = 256;  // as in sell: neighbouring slices share x in the L1
// Slots of a warp whose elements are asked for before the first is used.
template <class T>
constexpr int kSlotsInFlight = sizeof(T) == 16 ? 2 : 4;

static_assert(kLanes == kWarp);

template <class T>
struct Packed {
    index_t rows, slices;
    const index_t* slice_offsets;
    const std::uint64_t* words;
    const Byte* stream;
    const T* dictionary;
    int dictionary_size;
    const index_t* permutation;
    Real<T> scale;
};

template <class T>
__device__ __forceinline__ Bits<T> shuffle_bits(const Bits<T>& bits, int lane) {
    Bits<T> result;
#pragma unroll
    for (unsigned i = 0; i < sizeof(T) / 4; ++i) result.word[i] = __shfl_sync(kAllLanes, bits.word[i], lane);
    return result;
}

// What lane l of a warp knows about word l of a group: the word, and of a slot its lane mask, if lanes are missing, and
// its constant, if it has one of its own.
template <class T>
struct GroupWords {
    std::uint64_t word;
    std::uint32_t mask;
    Bits<T> constant;
    const Byte* start;  // of the group in the stream

    // All lanes of the warp call this, with the word of the lane and the number of words.
    __device__ __forceinline__ void read(const Packed<T>& matrix, std::uint64_t own, int count) {
        const int lane = threadIdx.x % kWarp;
        const std::uint32_t before = (1u << lane) - 1;
        const bool is_slot = lane > 0 && lane < count;
        word = own;
        const Group group = group_of(__shfl_sync(kAllLanes, own, 0));
        start = matrix.stream + group.position * kGranule;

        const Slot slot = slot_of(own);
        const bool is_ragged = is_slot && slot.ragged, is_constant = is_slot && slot.value == ValueMode::kConstant;
        const std::uint32_t ragged = __ballot_sync(kAllLanes, is_ragged);
        const std::uint32_t constants = __ballot_sync(kAllLanes, is_constant);
        const Byte* const masks = start + group.elements * kGranule;
        const Byte* const values = masks + granules_of(4 * __popc(ragged)) * kGranule;
        mask = is_ragged ? load_element<std::uint32_t>(masks + 4 * __popc(ragged & before)) : 0;
        constant = {};
        if (is_constant) constant = load_bits<T>(values + sizeof(T) * __popc(constants & before), sizeof(T));
    }
};

// Calls visit.template operator()<kMode>() with the mode.
template <class Visit>
__device__ __forceinline__ void visit_mode(ValueMode mode, const Visit& visit) {
    switch (mode) {
        case ValueMode::kFull:
            return visit.template operator()<ValueMode::kFull>();
        case ValueMode::kNarrow:
            return visit.template operator()<ValueMode::kNarrow>();
        case ValueMode::kInt16:
            return visit.template operator()<ValueMode::kInt16>();
        case ValueMode::kDictionary:
            return visit.template operator()<ValueMode::kDictionary>();
        case ValueMode::kConstant:
            return visit.template operator()<ValueMode::kConstant>();
        case ValueMode::kKnownConstant:
            return visit.template operator()<ValueMode::kKnownConstant>();
    }
}
template <class Visit>
__device__ __forceinline__ void visit_mode(IndexMode mode, const Visit& visit) {
    switch (mode) {
        case IndexMode::kShared:
            return visit.template operator()<IndexMode::kShared>();
        case IndexMode::k8:
            return visit.template operator()<IndexMode::k8>();
        case IndexMode::k16:
            return visit.template operator()<IndexMode::k16>();
        case IndexMode::k32:
            return visit.template operator()<IndexMode::k32>();
    }
}

// Calls visit.template operator()<kMode>(i) for kCount slots, with the mode of each, which is found but once if all
// have the first one's. Nothing but the visit may differ between lanes.
template <int kCount, class ModeOf, class Visit>
__device__ __forceinline__ void visit_slots(bool same, const ModeOf& mode_of, const Visit& visit) {
    if (same) {
        visit_mode(
            mode_of(0), [&]<auto kMode>() {
#pragma unroll
                for (int i = 0; i < kCount; ++i) visit.template operator()<kMode>(i);
            });
    } else {
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            visit_mode(
                mode_of(i), [&]<auto kMode>() { visit.template operator()<kMode>(i); });
        }
    }
}

// The sum of a row, lane by lane, over the slots first, first + step, ... of a group of `count` words. A word counts as
// slot, so `first` is at least 1. All lanes of a warp have the same slots, and differ in their own entries alone.
template <class T>
__device__ __forceinline__ T sum_group(const Packed<T>& matrix, const T* dictionary, const GroupWords<T>& group,
                                       int count, int first, int step, index_t row, const T* x, T sum) {
    constexpr int kInFlight = kSlotsInFlight<T>;
    const int lane = threadIdx.x % kWarp;
    const std::uint32_t before = (1u << lane) - 1;
    for (int k = first; k < count; k += step * kInFlight) {
        std::uint64_t words[kInFlight];
        std::uint64_t differing = 0, any = 0;
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) {
            // A slot that is not there is the first one again, and nobody has an entry in it.
            words[i] = __shfl_sync(kAllLanes, group.word, k + i * step < count ? k + i * step : k);
            differing |= words[i] ^ words[0];
            any |= words[i];
        }
        const auto slot = [&](int i) { return slot_of(words[i]); };
        const bool same_index = slot_of(differing).index == IndexMode{};  // in no bit
        const bool same_value = slot_of(differing).value == ValueMode{};
        const bool is_ragged = slot_of(any).ragged;

        // Whether the lane has an entry, where its elements are among those of the slot, and how many these are.
        bool has_entry[kInFlight];
        int place[kInFlight], lanes[kInFlight];
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) {
            has_entry[i] = k + i * step < count;
            place[i] = lane;
            lanes[i] = kWarp;
        }
        if (is_ragged) {
#pragma unroll
            for (int i = 0; i < kInFlight; ++i) {
                const std::uint32_t given = __shfl_sync(kAllLanes, group.mask, k + i * step);
                const std::uint32_t mask = slot(i).ragged ? given : kEveryLane;
                has_entry[i] = has_entry[i] && (mask >> lane & 1) != 0;
                place[i] = __popc(mask & before);
                lanes[i] = __popc(mask);
            }
        }
        std::uint32_t offsets[kInFlight];
        const auto load_index = [&]<IndexMode kMode>(int i) {
            offsets[i] = 0;
            if constexpr (kMode != IndexMode::kShared) {
                const int from = static_cast<int>(slot(i).position) * kGranule +
                                 indices_behind_values(slot(i).value_bytes, lanes[i]) + index_bytes(kMode) * place[i];
                if (has_entry[i]) offsets[i] = load_offset(group.start + from, kMode);
            }
        };
        visit_slots<kInFlight>(
            same_index, [&](int i) { return slot(i).index; }, load_index);

        Bits<T> bits[kInFlight];
        const auto load_value = [&]<ValueMode kMode>(int i) {
            bits[i] = {};
            if constexpr (kMode == ValueMode::kKnownConstant) {
                bits[i] = std::bit_cast<Bits<T>>(dictionary[slot(i).code]);
            } else if constexpr (kMode == ValueMode::kConstant) {
                bits[i] = shuffle_bits(group.constant, k + i * step);
            } else {
                constexpr int kBytes = value_bytes<T>(kMode);
                const int from = static_cast<int>(slot(i).position) * kGranule + kBytes * place[i];
                if (has_entry[i]) bits[i] = load_bits<T>(group.start + from, kBytes);
            }
        };
        const auto value_mode = [&](int i) { return slot(i).value; };
        visit_slots<kInFlight>(same_value, value_mode, load_value);

        T gathered[kInFlight];
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) {
            gathered[i] = has_entry[i] ? load(x + column_of(slot(i).base, row, offsets[i])) : T(0);
        }
        visit_slots<kInFlight>(same_value, value_mode, [&]<ValueMode kMode>(int i) {
            if (has_entry[i]) sum += value_of<T>(kMode, bits[i], dictionary, matrix.scale) * gathered[i];
        });
    }
    return sum;
}

// kWarps warps per slice: warp w takes slots w, w + kWarps, ... of every group; a lane per row. Sums meet in shared
// memory, in the order of the warps.
template <class T, int kWarps>
__global__ void __launch_bounds__(kWarps* kWarp > kBlockSize ? kWarps * kWarp : kBlockSize)
    packed_sell_lane_per_row(Packed<T> matrix, Product<T> product) {
    constexpr int kThreads = kWarps * kWarp > kBlockSize ? kWarps * kWarp : kBlockSize;
    constexpr int kSlicesPerBlock = kThreads / (kWarps * kWarp);
    __shared__ alignas(sizeof(T)) T dictionary[kDictionarySize];
#pragma unroll 1
    for (int i = threadIdx.x; i < matrix.dictionary_size; i += kThreads) dictionary[i] = load(matrix.dictionary + i);
    if (matrix.dictionary_size > 0) __syncthreads();

    const int lane = threadIdx.x % kWarp;
    const int warp = threadIdx.x / kWarp % kWarps;
    const int block_slice = threadIdx.x / kWarp / kWarps;
    const index_t slice = blockIdx.x * kSlicesPerBlock + block_slice;
    const std::int64_t position = std::int64_t(slice) * kWarp + lane;
    index_t row = 0;  // of lanes beyond the last row too, which no mask has
    T sum = 0;
    if (slice < matrix.slices) {
        if (position < matrix.rows) {
            row = matrix.permutation ? matrix.permutation[position] : static_cast<index_t>(position);
        }
        const index_t begin = matrix.slice_offsets[slice], end = matrix.slice_offsets[slice + 1];
        const auto word_at = [&](index_t at) { return at + lane < end ? load_once(matrix.words + at + lane) : 0; };
        std::uint64_t next = word_at(begin);
        for (index_t at = begin; at < end; at += kGroupWords) {
            const std::uint64_t own = next;
            next = word_at(at + kGroupWords);  // under way while this group is worked on
            const int count = min(kGroupWords, end - at);
            GroupWords<T> group;
            group.read(matrix, own, count);
            sum = sum_group(matrix, dictionary, group, count, 1 + warp, kWarps, row, product.x, sum);
        }
    }
    if constexpr (kWarps > 1) {
        __shared__ alignas(sizeof(T)) T sums[kSlicesPerBlock][kWarps][kWarp];
        store(&sums[block_slice][warp][lane], sum);
        __syncthreads();
        if (warp != 0) return;
        for (int w = 1; w < kWarps; ++w) sum += load(&sums[block_slice][w][lane]);
    }
    if (slice < matrix.slices && position < matrix.rows) store_row(product, row, sum);
}

}  // namespace

template <class T>
void PackedSell<T>::spmv_cuda(const Product<T>& product, Stream stream) const {
    if (rows == 0) return;
    const Packed<T> matrix{rows,
                           slices,
                           slice_offsets.data(),
                           words.data(),
                           this->stream.data(),
                           dictionary.data(),
                           static_cast<int>(dictionary.size()),
                           permutation.data(),
                           scale};
    dispatch<1, 2, 4, 8, 16, 32>("warps_per_slice", tuning.warps_per_slice, [&]<int kWarps>() {
        constexpr int kThreads = kWarps * kWarp > kBlockSize ? kWarps * kWarp : kBlockSize;
        const unsigned blocks = blocks_for(std::int64_t(slices) * kWarps * kWarp, kThreads);
        packed_sell_lane_per_row<T, kWarps><<<blocks, kThreads, 0, native(stream)>>>(matrix, product);
        check_launch("packed_sell_lane_per_row");
    });
}

#define INSTANTIATE(T) template void PackedSell<T>::spmv_cuda(const Product<T>&, Stream) const;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)

}  // namespace spmvgpu
