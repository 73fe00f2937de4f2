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

// What lane l of a warp knows about word l of a group: the word, and of a slot its lane mask and its constant, if it
// has one of its own.
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
        mask = is_slot ? kEveryLane : 0;
        if (is_ragged) mask = load_element<std::uint32_t>(masks + 4 * __popc(ragged & before));
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

// Some slots of kSlices slices that are decoded alike: all in flight are loaded before the first is used. If they are
// plain, no lane is missing anywhere, and what differs between the slices is where their groups begin.
template <bool kPlain, class T, int kInFlight, int kSlices>
__device__ __forceinline__ void add_slots(const Packed<T>& matrix, const T* dictionary,
                                          const GroupWords<T> (&groups)[kSlices], int count, int first, int step,
                                          const index_t (&rows)[kSlices], const T* x, T (&sums)[kSlices]) {
    const int lane = threadIdx.x % kWarp;
    const std::uint32_t before = (1u << lane) - 1;
    const auto is_there = [&](int i) { return first + i * step < count; };
    // A slot that is not there is the first one again, and nobody has an entry in it.
    const auto place_of = [&](int i) { return is_there(i) ? first + i * step : first; };
    std::uint64_t words[kInFlight];
    std::uint64_t differing = 0;
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
        words[i] = __shfl_sync(kAllLanes, groups[0].word, place_of(i));
        differing |= words[i] ^ words[0];
    }
    const auto slot = [&](int i) { return slot_of(words[i]); };
    const bool same_index = slot_of(differing).index == IndexMode{};  // in no bit
    const bool same_value = slot_of(differing).value == ValueMode{};

    // Whether the lane has an entry, where its elements are among those of the slot, how many these are, and where they
    // begin.
    bool has_entry[kInFlight][kSlices];
    int place[kInFlight][kSlices], lanes[kInFlight][kSlices], position[kInFlight][kSlices];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
#pragma unroll
        for (int s = 0; s < kSlices; ++s) {
            has_entry[i][s] = is_there(i);
            place[i][s] = lane;
            lanes[i][s] = kWarp;
            position[i][s] = static_cast<int>(slot(i).position) * kGranule;
            if constexpr (!kPlain) {
                const std::uint32_t mask = __shfl_sync(kAllLanes, groups[s].mask, place_of(i));
                has_entry[i][s] = is_there(i) && (mask >> lane & 1) != 0;
                place[i][s] = __popc(mask & before);
                lanes[i][s] = __popc(mask);
                if constexpr (kSlices > 1) {
                    const std::uint64_t word = __shfl_sync(kAllLanes, groups[s].word, place_of(i));
                    position[i][s] = static_cast<int>(slot_of(word).position) * kGranule;
                }
            }
        }
    }
    std::uint32_t offsets[kInFlight][kSlices];
    const auto load_index = [&]<IndexMode kMode>(int i) {
#pragma unroll
        for (int s = 0; s < kSlices; ++s) {
            offsets[i][s] = 0;
            if constexpr (kMode != IndexMode::kShared) {
                const int from = position[i][s] + indices_behind_values(slot(i).value_bytes, lanes[i][s]) +
                                 index_bytes(kMode) * place[i][s];
                if (has_entry[i][s]) offsets[i][s] = load_offset(groups[s].start + from, kMode);
            }
        }
    };
    visit_slots<kInFlight>(
        same_index, [&](int i) { return slot(i).index; }, load_index);

    Bits<T> bits[kInFlight][kSlices];
    const auto load_value = [&]<ValueMode kMode>(int i) {
#pragma unroll
        for (int s = 0; s < kSlices; ++s) {
            bits[i][s] = {};
            if constexpr (kMode == ValueMode::kKnownConstant) {
                bits[i][s] = std::bit_cast<Bits<T>>(dictionary[slot(i).code]);
            } else if constexpr (kMode == ValueMode::kConstant) {
                bits[i][s] = shuffle_bits(groups[s].constant, place_of(i));
            } else {
                constexpr int kBytes = value_bytes<T>(kMode);
                const int from = position[i][s] + kBytes * place[i][s];
                if (has_entry[i][s]) bits[i][s] = load_bits<T>(groups[s].start + from, kBytes);
            }
        }
    };
    const auto value_mode = [&](int i) { return slot(i).value; };
    visit_slots<kInFlight>(same_value, value_mode, load_value);

    T gathered[kInFlight][kSlices];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
#pragma unroll
        for (int s = 0; s < kSlices; ++s) {
            gathered[i][s] = has_entry[i][s] ? load(x + column_of(slot(i).base, rows[s], offsets[i][s])) : T(0);
        }
    }
    visit_slots<kInFlight>(same_value, value_mode, [&]<ValueMode kMode>(int i) {
#pragma unroll
        for (int s = 0; s < kSlices; ++s) {
            if (has_entry[i][s]) {
                sums[s] += value_of<T>(kMode, bits[i][s], dictionary, matrix.scale) * gathered[i][s];
            }
        }
    });
}

// Adds to the sums of rows, one of every slice for a lane, what they have in the slots first, first + step, ... of
// groups of `count` words. A word counts as slot, so `first` is at least 1. All lanes of a warp have the same slots,
// and so have all slices, but for where their elements are and which lanes are missing; they differ in their own
// entries alone.
template <class T, int kSlices>
__device__ __forceinline__ void add_groups(const Packed<T>& matrix, const T* dictionary,
                                           const GroupWords<T> (&groups)[kSlices], int count, int first, int step,
                                           const index_t (&rows)[kSlices], const T* x, T (&sums)[kSlices]) {
    constexpr int kInFlight = kSlices > 1 ? kSlotsInFlight<T> / 2 : kSlotsInFlight<T>;
    const int lane = threadIdx.x % kWarp;
    bool is_plain = lane >= count || !slot_of(groups[0].word).ragged;
#pragma unroll
    for (int s = 1; s < kSlices; ++s) is_plain = is_plain && groups[s].word == groups[0].word;
    const std::uint32_t plain = __ballot_sync(kAllLanes, is_plain);
    for (int k = first; k < count; k += step * kInFlight) {
        bool all_plain = true;
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) {
            const int at = k + i * step;
            all_plain = all_plain && (at >= count || (plain >> at & 1) != 0);
        }
        if (all_plain) {
            add_slots<true, T, kInFlight>(matrix, dictionary, groups, count, k, step, rows, x, sums);
        } else {
            add_slots<false, T, kInFlight>(matrix, dictionary, groups, count, k, step, rows, x, sums);
        }
    }
}

// One of a few, which is not to be indexed at run time, for then it would leave the registers.
template <class Element, int kSlices>
__device__ __forceinline__ Element pick(const Element (&of)[kSlices], int s) {
    Element picked = of[0];
#pragma unroll
    for (int i = 1; i < kSlices; ++i) {
        if (i == s) picked = of[i];
    }
    return picked;
}

// kWarps warps per slice: warp w takes slots w, w + kWarps, ... of every group; a lane per row. Sums meet in shared
// memory, in the order of the warps. Or kSlices slices per warp: where their groups have the same slots, as in grids,
// these are decoded once for all.
template <class T, int kWarps, int kSlices>
__global__ void __launch_bounds__(kWarps* kWarp > kBlockSize ? kWarps * kWarp : kBlockSize)
    packed_sell_lane_per_row(Packed<T> matrix, Product<T> product) {
    static_assert(kWarps == 1 || kSlices == 1);
    constexpr int kThreads = kWarps * kWarp > kBlockSize ? kWarps * kWarp : kBlockSize;
    constexpr int kTeamsPerBlock = kThreads / (kWarps * kWarp);
    __shared__ alignas(sizeof(T)) T dictionary[kDictionarySize];
#pragma unroll 1
    for (int i = threadIdx.x; i < matrix.dictionary_size; i += kThreads) dictionary[i] = load(matrix.dictionary + i);
    if (matrix.dictionary_size > 0) __syncthreads();

    const int lane = threadIdx.x % kWarp;
    const int warp = threadIdx.x / kWarp % kWarps;
    const int team = threadIdx.x / kWarp / kWarps;
    const std::int64_t first_slice = (std::int64_t(blockIdx.x) * kTeamsPerBlock + team) * kSlices;
    index_t rows[kSlices];  // 0 of lanes beyond the last row, which no mask has
    index_t begin[kSlices], end[kSlices];
    T sums[kSlices];
    bool is_row[kSlices];
#pragma unroll
    for (int s = 0; s < kSlices; ++s) {
        const std::int64_t slice = first_slice + s, position = slice * kWarp + lane;
        const bool is_slice = slice < matrix.slices;
        is_row[s] = position < matrix.rows;
        rows[s] = 0;
        if (is_row[s]) rows[s] = matrix.permutation ? matrix.permutation[position] : static_cast<index_t>(position);
        begin[s] = is_slice ? matrix.slice_offsets[slice] : 0;
        end[s] = is_slice ? matrix.slice_offsets[slice + 1] : 0;
        sums[s] = 0;
    }
    std::uint64_t own[kSlices];
    bool is_left = false;
    const auto load_words = [&] {
        is_left = false;
#pragma unroll
        for (int s = 0; s < kSlices; ++s) {
            own[s] = begin[s] + lane < end[s] ? load_once(matrix.words + begin[s] + lane) : 0;
            is_left = is_left || begin[s] < end[s];
        }
    };
    load_words();
    while (is_left) {
        std::uint64_t words[kSlices];
        int counts[kSlices];
        bool is_alike = true;
#pragma unroll
        for (int s = 0; s < kSlices; ++s) {
            words[s] = own[s];
            counts[s] = min(kGroupWords, end[s] - begin[s]);
            begin[s] += counts[s];
            is_alike = is_alike && counts[s] == counts[0] && (lane == 0 || ((words[s] ^ words[0]) & ~kOfOneSlice) == 0);
        }
        load_words();  // under way while these are worked on
        if (kSlices == 1 || __all_sync(kAllLanes, is_alike)) {
            GroupWords<T> groups[kSlices];
#pragma unroll
            for (int s = 0; s < kSlices; ++s) groups[s].read(matrix, words[s], counts[s]);
            add_groups(matrix, dictionary, groups, counts[0], 1 + warp, kWarps, rows, product.x, sums);
        } else {
#pragma unroll 1
            for (int s = 0; s < kSlices; ++s) {
                const int count = pick(counts, s);
                const index_t row[] = {pick(rows, s)};
                T sum[] = {pick(sums, s)};
                GroupWords<T> group[1];
                group[0].read(matrix, pick(words, s), count);
                add_groups(matrix, dictionary, group, count, 1, 1, row, product.x, sum);
#pragma unroll
                for (int i = 0; i < kSlices; ++i) {
                    if (i == s) sums[i] = sum[0];
                }
            }
        }
    }
    if constexpr (kWarps > 1) {
        __shared__ alignas(sizeof(T)) T shared[kTeamsPerBlock][kWarps][kWarp];
        store(&shared[team][warp][lane], sums[0]);
        __syncthreads();
        if (warp != 0) return;
        for (int w = 1; w < kWarps; ++w) sums[0] += load(&shared[team][w][lane]);
    }
#pragma unroll
    for (int s = 0; s < kSlices; ++s) {
        if (is_row[s]) store_row(product, rows[s], sums[s]);
    }
}

template <class T, int kWarps, int kSlices>
void launch(const Packed<T>& matrix, const Product<T>& product, Stream stream) {
    constexpr int kThreads = kWarps * kWarp > kBlockSize ? kWarps * kWarp : kBlockSize;
    const std::int64_t teams = (std::int64_t(matrix.slices) + kSlices - 1) / kSlices;
    const unsigned blocks = blocks_for(teams * kWarps * kWarp, kThreads);
    packed_sell_lane_per_row<T, kWarps, kSlices><<<blocks, kThreads, 0, native(stream)>>>(matrix, product);
    check_launch("packed_sell_lane_per_row");
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
        if constexpr (kWarps == 1) {
            dispatch<1, 4>("slices_per_warp", tuning.slices_per_warp,
                           [&]<int kSlices>() { launch<T, 1, kSlices>(matrix, product, stream); });
        } else {
            launch<T, kWarps, 1>(matrix, product, stream);
        }
    });
}

#define INSTANTIATE(T) template void PackedSell<T>::spmv_cuda(const Product<T>&, Stream) const;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)

}  // namespace spmvgpu
