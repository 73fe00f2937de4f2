#include "core/dispatch.hpp"
#include "cuda/check.hpp"
#include "cuda/warp.cuh"
#include "formats/packed_sell.hpp"

namespace spmvgpu {

namespace {

using namespace cuda;
using namespace packed;

constexpr int kBlockSize = 256;  // as in sell: neighbouring slices share x in the L1
constexpr int kInFlight = 4;     // slots of a warp whose elements are asked for before the first is used

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

// The sum of a row, lane by lane, over the slots first, first + step, ... of a group of `count` words. A word counts as
// slot, so `first` is at least 1.
template <class T>
__device__ __forceinline__ T sum_group(const Packed<T>& matrix, const T* dictionary, const GroupWords<T>& group,
                                       int count, int first, int step, index_t row, const T* x, T sum) {
    const int lane = threadIdx.x % kWarp;
    const std::uint32_t before = (1u << lane) - 1;
    for (int k = first; k < count; k += step * kInFlight) {
        ValueMode modes[kInFlight];
        Bits<T> bits[kInFlight];
        index_t cols[kInFlight];
        bool has_entry[kInFlight];
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) {
            // All lanes have the same slot, and take the same branches up to the one about their own entry.
            const int from = k + i * step;
            const bool is_slot = from < count;
            const Slot slot = slot_of(is_slot ? __shfl_sync(kAllLanes, group.word, from) : 0);
            std::uint32_t mask = is_slot ? kEveryLane : 0;
            if (is_slot && slot.ragged) mask = __shfl_sync(kAllLanes, group.mask, from);
            modes[i] = slot.value;
            bits[i] = {};
            if (slot.value == ValueMode::kKnownConstant) {
                bits[i] = std::bit_cast<Bits<T>>(dictionary[slot.code]);
            } else if (slot.value == ValueMode::kConstant) {
                bits[i] = shuffle_bits(group.constant, from);
            }
            has_entry[i] = (mask >> lane & 1) != 0;
            std::uint32_t offset = 0;
            const int index_size = index_bytes(slot.index), value_size = slot.value_bytes;
            if (has_entry[i] && index_size + value_size > 0) {
                const Elements at =
                    elements_at(group.start + slot.position * kGranule, index_size, value_size, __popc(mask));
                const int place = __popc(mask & before);
                if (index_size > 0) offset = load_offset(at.indices + index_size * place, slot.index);
                if (value_size > 0) bits[i] = load_bits<T>(at.values + value_size * place, value_size);
            }
            cols[i] = column_of(slot.base, row, offset);
        }
        T gathered[kInFlight];
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) gathered[i] = has_entry[i] ? load(x + cols[i]) : T(0);
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) {
            if (has_entry[i]) sum += value_of<T>(modes[i], bits[i], dictionary, matrix.scale) * gathered[i];
        }
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
