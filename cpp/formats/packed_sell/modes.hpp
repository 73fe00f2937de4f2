// The memory layout of packed_sell: the head of a group of slots, the sections of its part of the stream, and the
// elements of indices and values. The CPU and the GPU share the code that reads it.
#pragma once

#include <bit>
#include <compare>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/passes/bits.hpp"
#include "core/types.hpp"

namespace spmvgpu::packed {

inline constexpr int kLanes = 32;       // rows of a slice, a warp's lanes
inline constexpr int kGroupSlots = 32;  // at most; a bit each in the masks of a head
// Neighbours that a kernel reads together: either all of them have offsets or none.
inline constexpr int kBatchSlots = 4;
// The unit of positions in the stream and of section sizes, in bytes: a sector of a GPU's memory, and large enough that
// the last reads of a batch of slots end with their section.
inline constexpr int kGranule = 32;
inline constexpr int kDictionarySize = 256;  // number of codes of one byte
inline constexpr std::uint32_t kEveryLane = 0xffffffffu;

using Byte = std::uint8_t;

SPMVGPU_IN_BODY constexpr int whole_granules(int bytes) { return (bytes + kGranule - 1) & -kGranule; }

// How the columns of a group are stored, beside a base for each slot.
enum class IndexMode : std::uint8_t {
    kShared,  // not at all: every lane has an entry, with the same offset from its row
    kMasks,   // a mask for each slot, for the lanes that have an entry, at the same offset from their rows
    k8,       // for slots that are not shared, each lane's unsigned distance from the base in 8, 16 or 32 bits,
    k16,      // with all bits set where a lane has no entry
    k32,
};
inline constexpr int kIndexModes = 5;

// How the values of a group are stored, for the slots that are not constant.
enum class ValueMode : std::uint8_t {
    kConstant,    // not at all: each slot has one value for all lanes
    kFull,        // in full
    kDictionary,  // 8-bit codes of the values in the dictionary of the matrix
};
inline constexpr int kValueModes = 3;

// Bytes of an element; 0 in a mode without elements.
SPMVGPU_IN_BODY constexpr int index_bytes(IndexMode mode) {
    return mode < IndexMode::k8 ? 0 : 1 << (static_cast<int>(mode) - static_cast<int>(IndexMode::k8));
}

template <class T>
SPMVGPU_IN_BODY constexpr int value_bytes(ValueMode mode) {
    return mode == ValueMode::kFull ? sizeof(T) : mode == ValueMode::kDictionary ? 1 : 0;
}

// The head of a group, as two words:
// clang-format off
//     bits 0-31    32-63         0-47       48-53   54-56        57-59        60
//          shared  constant  |   position   slots   index mode   value mode   whether another group follows
// clang-format on
// position: granules from the start of the stream to the first group of a slice; to a later group from the first. A
// slice without entries has a group without slots.
struct Head {
    // Bit s: in slot s every lane has an entry at the same offset from its row. In a group with offsets, this holds for
    // whole batches only; missing slots up to the end of the last batch count as slots with offsets.
    std::uint32_t shared = 0;
    std::uint32_t constant = 0;  // bit s: one value for all lanes that have an entry
    std::uint64_t position = 0;
    int slots = 0;
    IndexMode index = IndexMode::kShared;
    ValueMode value = ValueMode::kConstant;
    bool more = false;

    SPMVGPU_IN_BODY std::uint32_t every_slot() const { return slots == kGroupSlots ? 0xffffffffu : (1u << slots) - 1; }
};

inline constexpr int kHeadWords = 2;

struct HeadWords {
    std::uint64_t masks, rest;

    constexpr bool operator==(const HeadWords&) const = default;
    constexpr auto operator<=>(const HeadWords&) const = default;
};
static_assert(sizeof(HeadWords) == kHeadWords * sizeof(std::uint64_t) && sizeof(HeadWords) <= kGranule);

constexpr HeadWords words_of(const Head& head) {
    const std::uint32_t modes = std::uint32_t(head.slots) | std::uint32_t(head.index) << 6 |
                                std::uint32_t(head.value) << 9 | std::uint32_t(head.more) << 12;
    return {std::uint64_t(head.constant) << 32 | head.shared, std::uint64_t(modes) << 48 | head.position};
}

SPMVGPU_IN_BODY constexpr Head head_of(HeadWords words) {
    const auto modes = static_cast<std::uint32_t>(words.rest >> 48);
    Head head;
    head.shared = static_cast<std::uint32_t>(words.masks);
    head.constant = static_cast<std::uint32_t>(words.masks >> 32);
    head.position = words.rest & 0xffffffffffffu;
    head.slots = static_cast<int>(modes & 0x3f);
    head.index = static_cast<IndexMode>(modes >> 6 & 7);
    head.value = static_cast<ValueMode>(modes >> 9 & 7);
    head.more = (modes >> 12 & 1) != 0;
    return head;
}

struct ModeCounts {
    std::int64_t index[kIndexModes] = {}, value[kValueModes] = {};
    std::int64_t slots = 0, ragged = 0;

    SPMVGPU_IN_BODY ModeCounts& operator+=(const ModeCounts& other) {
        for (int i = 0; i < kIndexModes; ++i) index[i] += other.index[i];
        for (int i = 0; i < kValueModes; ++i) value[i] += other.value[i];
        slots += other.slots;
        ragged += other.ragged;
        return *this;
    }
    SPMVGPU_IN_BODY void add(const Head& head, int ragged_slots) {
        const int shared = count_bits(head.shared & head.every_slot()), constant = count_bits(head.constant);
        for (int i = 0; i < kIndexModes; ++i) {  // unrolled for a GPU, which then keeps them in registers
            index[i] += (i == static_cast<int>(head.index) ? head.slots - shared : 0) + (i == 0 ? shared : 0);
        }
        for (int i = 0; i < kValueModes; ++i) {
            value[i] += (i == static_cast<int>(head.value) ? head.slots - constant : 0) + (i == 0 ? constant : 0);
        }
        slots += head.slots;
        ragged += ragged_slots;
    }
    template <class Visit>
    void each_count(const Visit& visit) const {
        constexpr const char* kIndexNames[] = {"index_shared", "index_masks", "index_8", "index_16", "index_32"};
        constexpr const char* kValueNames[] = {"values_constant", "values_full", "values_dictionary"};
        for (int i = 0; i < kIndexModes; ++i) visit(kIndexNames[i], index[i]);
        for (int i = 0; i < kValueModes; ++i) visit(kValueNames[i], value[i]);
        visit("ragged", ragged);
    }
    std::int64_t of(ValueMode mode) const { return value[static_cast<int>(mode)]; }
};

// The begins of the sections of a group, in bytes from its start, and its end. The head of the next group, if there is
// one, comes first, so that it can be loaded before anything of this group is known.
struct Sections {
    int bases;      // a 32-bit integer for each slot
    int constants;  // a value for each constant slot
    int indices;    // a mask for each slot, or an offset for each lane of the slots that are not shared
    int values;     // an element for each lane of a slot that is not constant
    int end;
};

template <class T>
SPMVGPU_IN_BODY Sections sections_of(const Head& head) {
    const int constants = count_bits(head.constant);
    const int sets = ((head.slots + kBatchSlots - 1) & -kBatchSlots) - count_bits(head.shared);
    const int index_section =
        head.index == IndexMode::kMasks ? 4 * head.slots : index_bytes(head.index) * kLanes * sets;
    Sections at;
    at.bases = head.more ? kGranule : 0;
    at.constants = at.bases + whole_granules(4 * head.slots);
    at.indices = at.constants + whole_granules(static_cast<int>(sizeof(T)) * constants);
    at.values = at.indices + whole_granules(index_section);
    at.end = at.values + value_bytes<T>(head.value) * kLanes * (head.slots - constants);
    return at;
}

// One element of the stream. Elements lie at multiples of their size.
template <class Element>
Element load_element(const Byte* from) {
    Element element;
    std::memcpy(&element, from, sizeof(element));
    return element;
}

template <class Element>
SPMVGPU_IN_BODY void store_element(Byte* to, Element element) {
#ifdef __CUDA_ARCH__
    *reinterpret_cast<Element*>(to) = element;
#else
    std::memcpy(to, &element, sizeof(element));
#endif
}

template <int kBytes>
using UnsignedOf = std::conditional_t<
    kBytes == 1, std::uint8_t,
    std::conditional_t<kBytes == 2, std::uint16_t, std::conditional_t<kBytes == 4, std::uint32_t, std::uint64_t>>>;

// A lane's distance from the base, or that it has no entry.
template <IndexMode kMode>
using Offset = UnsignedOf<index_bytes(kMode)>;
template <IndexMode kMode>
inline constexpr std::uint32_t kNoEntry = static_cast<Offset<kMode>>(-1);
// The bits of a value, or its element in the low ones, which are held while other elements are loaded.
template <class T>
struct Bits {
    std::uint32_t word[sizeof(T) / 4];

    constexpr bool operator==(const Bits&) const = default;
    constexpr auto operator<=>(const Bits&) const = default;
};

template <class T, int kBytes, class Load>
SPMVGPU_IN_BODY Bits<T> load_bits(const Byte* from, const Load& load) {
    Bits<T> bits{};
    if constexpr (kBytes <= 4) {
        bits.word[0] = load.template operator()<UnsignedOf<kBytes>>(from);
    } else {
        for (int pair = 0; pair < kBytes / 8; ++pair) {
            const auto two = load.template operator()<std::uint64_t>(from + 8 * pair);
            bits.word[2 * pair] = static_cast<std::uint32_t>(two);
            bits.word[2 * pair + 1] = static_cast<std::uint32_t>(two >> 32);
        }
    }
    return bits;
}

// Unsigned, so that the intermediate sums may overflow on the way to a column that exists.
SPMVGPU_IN_BODY constexpr index_t column_of(std::int32_t base, index_t row, std::uint32_t offset) {
    return static_cast<index_t>(static_cast<std::uint32_t>(base) + static_cast<std::uint32_t>(row) + offset);
}

template <class T>
SPMVGPU_IN_BODY T value_of(ValueMode mode, Bits<T> bits, const T* dictionary) {
    return mode == ValueMode::kDictionary ? dictionary[bits.word[0]] : std::bit_cast<T>(bits);
}

}  // namespace spmvgpu::packed
