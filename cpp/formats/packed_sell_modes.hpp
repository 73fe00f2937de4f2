// How packed_sell writes one slot: the word that describes it, and the elements of its indices and values. Reading is
// the same code on the CPU and on a GPU.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "core/types.hpp"

#ifdef __CUDACC__
#define SPMVGPU_ANYWHERE __host__ __device__ __forceinline__
#else
#define SPMVGPU_ANYWHERE inline
#endif

namespace spmvgpu::packed {

inline constexpr int kLanes = 32;           // rows of a slice, a warp's lanes
inline constexpr int kGroupWords = kLanes;  // a header and the slots that it serves: one word per lane
inline constexpr int kGroupSlots = kGroupWords - 1;
inline constexpr int kGranule = 16;          // bytes that positions in the stream count
inline constexpr int kDictionarySize = 256;  // what a code of one byte can tell apart
inline constexpr std::uint32_t kEveryLane = 0xffffffffu;

using Byte = std::uint8_t;

template <class Size>
SPMVGPU_ANYWHERE constexpr Size granules_of(Size bytes) {
    return (bytes + kGranule - 1) / kGranule;
}

// How far the column of a lane lies behind base + row: nowhere, or by an unsigned number of so many bits.
enum class IndexMode : std::uint8_t { kShared, k8, k16, k32 };
inline constexpr int kIndexModes = 4;

// What is stored of a slot's values.
enum class ValueMode : std::uint8_t {
    kFull,           // the values
    kNarrow,         // half of their bytes: float32 for float64, bfloat16 for float32
    kInt16,          // 16-bit integers, times the scale of the matrix
    kDictionary,     // 8-bit codes of the values in the dictionary of the matrix
    kConstant,       // one value for all lanes, at the end of the group
    kKnownConstant,  // one value for all lanes, by its code: nothing
};
inline constexpr int kValueModes = 6;

template <class T>
inline constexpr int kParts = kIsComplex<T> ? 2 : 1;  // real numbers in a value

// Sizes are told by a number that needs no table: 0, 1, 2, ... for 0, 1, 2, 4, 8 and 16 bytes. That of an index is its
// mode.
SPMVGPU_ANYWHERE constexpr int bytes_of_size(int size) { return 1 << size >> 1; }
SPMVGPU_ANYWHERE constexpr int size_of_bytes(int bytes) { return std::bit_width(static_cast<unsigned>(bytes)); }

SPMVGPU_ANYWHERE constexpr int index_bytes(IndexMode mode) { return bytes_of_size(static_cast<int>(mode)); }

template <class T>
SPMVGPU_ANYWHERE constexpr int value_bytes(ValueMode mode) {
    switch (mode) {
        case ValueMode::kFull:
            return sizeof(T);
        case ValueMode::kNarrow:
            return sizeof(T) / 2;
        case ValueMode::kInt16:
            return 2 * kParts<T>;
        case ValueMode::kDictionary:
            return 1;
        default:
            return 0;
    }
}

// The word of a slot:
// clang-format off
//     bits 0-31   32-42      43-50   51-52        53-55        56-58        59
//          base   position   code    index mode   value mode   value size   whether lanes are missing
// clang-format on
// position: granules from the start of its group to its elements. base: signed. What is not needed is zero.
struct Slot {
    std::int32_t base = 0;
    std::uint32_t position = 0;
    std::uint32_t code = 0;
    IndexMode index = IndexMode::kShared;
    ValueMode value = ValueMode::kFull;
    int value_bytes = 0;  // of an element
    bool ragged = false;
};

constexpr std::uint64_t word_of(const Slot& slot) {
    const std::uint32_t high = slot.position | slot.code << 11 | std::uint32_t(slot.index) << 19 |
                               std::uint32_t(slot.value) << 21 | std::uint32_t(size_of_bytes(slot.value_bytes)) << 24 |
                               std::uint32_t(slot.ragged) << 27;
    return std::uint64_t(high) << 32 | static_cast<std::uint32_t>(slot.base);
}

SPMVGPU_ANYWHERE constexpr Slot slot_of(std::uint64_t word) {
    const auto high = static_cast<std::uint32_t>(word >> 32);
    Slot slot;
    slot.base = static_cast<std::int32_t>(static_cast<std::uint32_t>(word));
    slot.position = high & 0x7ff;
    slot.code = high >> 11 & 0xff;
    slot.index = static_cast<IndexMode>(high >> 19 & 3);
    slot.value = static_cast<ValueMode>(high >> 21 & 7);
    slot.value_bytes = bytes_of_size(static_cast<int>(high >> 24 & 7));
    slot.ragged = (high >> 27 & 1) != 0;
    return slot;
}

// The word before the slots of a group: where it begins in the stream and, behind the elements of its slots, the lane
// masks of those with missing lanes and the values of those with a constant, both in the order of the slots.
struct Group {
    std::uint64_t position = 0;  // granules
    std::uint32_t elements = 0;  // granules
};

constexpr std::uint64_t word_of(const Group& group) { return std::uint64_t(group.elements) << 48 | group.position; }

SPMVGPU_ANYWHERE constexpr Group group_of(std::uint64_t word) {
    return {word & 0xffffffffffffu, static_cast<std::uint32_t>(word >> 48)};
}

// One element of the stream. Elements lie at multiples of their size.
template <class Element>
SPMVGPU_ANYWHERE Element load_element(const Byte* from) {
#ifdef __CUDA_ARCH__
    return __ldcs(reinterpret_cast<const Element*>(from));  // read once: it leaves the caches to x
#else
    Element element;
    std::memcpy(&element, from, sizeof(element));
    return element;
#endif
}

// The bits of a value, or of the element that stands for it in the low ones: what is under way while other elements
// are asked for.
template <class T>
struct Bits {
    std::uint32_t word[sizeof(T) / 4];

    bool operator==(const Bits&) const = default;
    auto operator<=>(const Bits&) const = default;
};

template <class T>
SPMVGPU_ANYWHERE Bits<T> load_bits(const Byte* from, int bytes) {
    Bits<T> bits{};
    switch (bytes) {
        case 1:
            bits.word[0] = load_element<std::uint8_t>(from);
            break;
        case 2:
            bits.word[0] = load_element<std::uint16_t>(from);
            break;
        case 4:
            bits.word[0] = load_element<std::uint32_t>(from);
            break;
        case 8:
            if constexpr (sizeof(T) >= 8) {
                const auto pair = load_element<std::uint64_t>(from);
                bits.word[0] = static_cast<std::uint32_t>(pair);
                bits.word[1] = static_cast<std::uint32_t>(pair >> 32);
            }
            break;
        case 16:
            if constexpr (sizeof(T) == 16) {
                for (int half = 0; half < 2; ++half) {
                    const auto pair = load_element<std::uint64_t>(from + 8 * half);
                    bits.word[2 * half] = static_cast<std::uint32_t>(pair);
                    bits.word[2 * half + 1] = static_cast<std::uint32_t>(pair >> 32);
                }
            }
            break;
        default:
            break;
    }
    return bits;
}

SPMVGPU_ANYWHERE std::uint32_t load_offset(const Byte* from, IndexMode mode) {
    switch (mode) {
        case IndexMode::k8:
            return load_element<std::uint8_t>(from);
        case IndexMode::k16:
            return load_element<std::uint16_t>(from);
        case IndexMode::k32:
            return load_element<std::uint32_t>(from);
        default:
            return 0;
    }
}

// Unsigned, so that neither the base nor what comes on top can overflow on the way to a column that is there.
SPMVGPU_ANYWHERE constexpr index_t column_of(std::int32_t base, index_t row, std::uint32_t offset) {
    return static_cast<index_t>(static_cast<std::uint32_t>(base) + static_cast<std::uint32_t>(row) + offset);
}

// A real number of a narrow element: the upper half of a float32, or a float32 for a float64.
SPMVGPU_ANYWHERE void widen(std::uint32_t bits, float& value) { value = std::bit_cast<float>(bits << 16); }
SPMVGPU_ANYWHERE void widen(std::uint32_t bits, double& value) { value = std::bit_cast<float>(bits); }

template <class Real>
SPMVGPU_ANYWHERE Real scaled_int16(std::uint32_t bits, Real scale) {
    return static_cast<Real>(static_cast<std::int16_t>(bits)) * scale;
}

// The value that an element stands for, in a mode with elements.
template <class T>
SPMVGPU_ANYWHERE T value_of(ValueMode mode, Bits<T> bits, const T* dictionary, Real<T> scale) {
    T value;
    if constexpr (kIsComplex<T>) {
        // The parts of a narrow element: halves of one word of complex64, words of complex128.
        const std::uint32_t second = bits.word[sizeof(T) == 16];
        switch (mode) {
            case ValueMode::kNarrow:
                widen(sizeof(T) == 16 ? bits.word[0] : bits.word[0] & 0xffff, value.real);
                widen(sizeof(T) == 16 ? second : bits.word[0] >> 16, value.imag);
                return value;
            case ValueMode::kInt16:
                return {scaled_int16(bits.word[0] & 0xffff, scale), scaled_int16(bits.word[0] >> 16, scale)};
            case ValueMode::kDictionary:
                return dictionary[bits.word[0]];
            default:
                return std::bit_cast<T>(bits);
        }
    } else {
        switch (mode) {
            case ValueMode::kNarrow:
                widen(bits.word[0], value);
                return value;
            case ValueMode::kInt16:
                return scaled_int16(bits.word[0], scale);
            case ValueMode::kDictionary:
                return dictionary[bits.word[0]];
            default:
                return std::bit_cast<T>(bits);
        }
    }
}

// Where the indices of a slot lie behind its values. Both are those of the lanes that it has, without gaps.
SPMVGPU_ANYWHERE constexpr int indices_behind_values(int value_bytes, int lanes) {
    constexpr int kLargestIndex = 4;
    return (value_bytes * lanes + kLargestIndex - 1) & -kLargestIndex;
}

}  // namespace spmvgpu::packed
