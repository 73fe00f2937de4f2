// Which values packed_sell can store in fewer bytes, and how; on the CPU and on a GPU.
#pragma once

#include <bit>
#include <cstring>
#include <vector>

#include "core/array.hpp"
#include "formats/packed_sell/modes.hpp"

namespace spmvgpu::packed {

template <class T>
SPMVGPU_IN_BODY Bits<T> bits_of(T value) {
    return std::bit_cast<Bits<T>>(value);
}

// Whether every processor converts a number alike: some change the bits of NaN, or take subnormal numbers for zero.
SPMVGPU_IN_BODY bool is_plain(float value) {
    const std::uint32_t size = std::bit_cast<std::uint32_t>(value) << 1;
    return size == 0 || (size >= 0x01000000u && size <= 0xff000000u);
}
SPMVGPU_IN_BODY bool is_plain(double value) {
    const std::uint64_t size = std::bit_cast<std::uint64_t>(value) << 1;
    return size == 0 || (size >= 0x0020000000000000u && size <= 0xffe0000000000000u);
}

// An element that stands for a real number to the bit, if there is one.
struct MaybeElement {
    bool is_there;
    std::uint32_t bits;
};

// Of half a number's bytes.
SPMVGPU_IN_BODY MaybeElement narrowed(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    return {(bits & 0xffff) == 0, bits >> 16};
}
SPMVGPU_IN_BODY MaybeElement narrowed(double value) {
    constexpr double kLargest = 3.4028234663852886e38;  // that float32 has
    const bool is_infinite = std::bit_cast<std::uint64_t>(value) << 1 == 0xffe0000000000000u;
    if ((value > kLargest || value < -kLargest) && !is_infinite) return {false, 0};
    const auto narrow = static_cast<float>(value);
    const bool is_same = std::bit_cast<std::uint64_t>(double(narrow)) == std::bit_cast<std::uint64_t>(value);
    return {is_same && is_plain(narrow), std::bit_cast<std::uint32_t>(narrow)};
}

// The 16-bit integer.
template <class Real>
SPMVGPU_IN_BODY MaybeElement as_int16(Real value, Real scale) {
    constexpr Real kMost = 32767;
    const Real multiple = value / scale;  // exact, or too large, for the scale is a power of two
    if (!(multiple <= kMost && multiple >= -kMost) || !is_plain(value)) return {false, 0};
    const auto bits = static_cast<std::uint16_t>(static_cast<std::int16_t>(multiple));
    return {bits_of(scaled_int16<Real>(bits, scale)) == bits_of(value), bits};
}

// Calls visit(part) for the real numbers of a value, as long as it returns true; whether it always did.
template <class T, class Visit>
SPMVGPU_IN_BODY bool all_parts(T value, const Visit& visit) {
    if constexpr (kIsComplex<T>) {
        return visit(value.real) && visit(value.imag);
    } else {
        return visit(value);
    }
}

// Codes of the values in a dictionary, by their bits: a hash table, which the host makes.
template <class T>
struct CodeTable {
    static constexpr std::uint32_t kPlaces = 4 * kDictionarySize;
    static constexpr std::uint16_t kNone = 0xffff;

    Bits<T> known[kPlaces];
    std::uint16_t codes[kPlaces];

    // Where bits are in the table, or would be.
    SPMVGPU_IN_BODY std::uint32_t place_of(const Bits<T>& bits) const {
        std::uint64_t hash = 0;
        for (std::uint32_t word : bits.word) hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        auto place = static_cast<std::uint32_t>(hash >> 54);
        while (codes[place] != kNone && !(known[place] == bits)) place = (place + 1) % kPlaces;
        return place;
    }
    SPMVGPU_IN_BODY std::uint16_t code_of(const Bits<T>& bits) const { return codes[place_of(bits)]; }
};

template <class T>
CodeTable<T> code_table(const std::vector<T>& dictionary) {
    CodeTable<T> table{};
    for (std::uint16_t& code : table.codes) code = CodeTable<T>::kNone;
    for (std::size_t code = 0; code < dictionary.size(); ++code) {
        const Bits<T> bits = bits_of(dictionary[code]);
        const std::uint32_t place = table.place_of(bits);
        table.known[place] = bits;
        table.codes[place] = static_cast<std::uint16_t>(code);
    }
    return table;
}

// The modes of the values of one matrix.
template <class T>
struct ValueCoder {
    const CodeTable<T>* table;  // null without a dictionary
    Real<T> scale;              // 0 without integers

    // Whether the very bits of a value come back from the element of a mode.
    SPMVGPU_IN_BODY bool holds(ValueMode mode, T value) const {
        switch (mode) {
            case ValueMode::kNarrow:
                return all_parts(value, [](auto part) { return narrowed(part).is_there; });
            case ValueMode::kInt16:
                return scale != 0 && all_parts(value, [s = scale](auto part) { return as_int16(part, s).is_there; });
            case ValueMode::kDictionary:
                return table != nullptr && table->code_of(bits_of(value)) != CodeTable<T>::kNone;
            default:
                return true;
        }
    }

    // That element, of a value that the mode holds, in the low bytes.
    SPMVGPU_IN_BODY Bits<T> element(ValueMode mode, T value) const {
        Bits<T> bits{};
        switch (mode) {
            case ValueMode::kNarrow:
                return joined<sizeof(Real<T>) / 2>(value, [](auto part) { return narrowed(part).bits; });
            case ValueMode::kInt16:
                return joined<2>(value, [s = scale](auto part) { return as_int16(part, s).bits; });
            case ValueMode::kDictionary:
                bits.word[0] = table->code_of(bits_of(value));
                return bits;
            default:
                return bits_of(value);
        }
    }

private:
    // Elements of so many bytes of the parts, side by side.
    template <int kBytes, class Encode>
    static SPMVGPU_IN_BODY Bits<T> joined(T value, const Encode& encode) {
        Bits<T> bits{};
        if constexpr (kIsComplex<T>) {
            if constexpr (kBytes == 4) {
                bits.word[0] = encode(value.real);
                bits.word[1] = encode(value.imag);
            } else {
                bits.word[0] = encode(value.real) | encode(value.imag) << 16;
            }
        } else {
            bits.word[0] = encode(value);
        }
        return bits;
    }
};

}  // namespace spmvgpu::packed
