// Which values packed_sell can store in fewer bytes, and how.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "formats/packed_sell_modes.hpp"

namespace spmvgpu::packed {

template <class T>
Bits<T> bits_of(T value) {
    return std::bit_cast<Bits<T>>(value);
}

// Whether every processor converts a number alike: some change the bits of NaN, or take subnormal numbers for zero.
template <class Real>
bool is_plain(Real value) {
    return value == 0 || std::isnormal(value) || std::isinf(value);
}

// The element of half a real number's bytes that stands for it, if one does, to the bit.
inline std::optional<std::uint32_t> narrowed(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if ((bits & 0xffff) != 0) return std::nullopt;
    return bits >> 16;
}
inline std::optional<std::uint32_t> narrowed(double value) {
    if (std::abs(value) > std::numeric_limits<float>::max() && !std::isinf(value)) return std::nullopt;
    const auto narrow = static_cast<float>(value);
    if (!is_plain(narrow) || std::bit_cast<std::uint64_t>(double(narrow)) != std::bit_cast<std::uint64_t>(value)) {
        return std::nullopt;
    }
    return std::bit_cast<std::uint32_t>(narrow);
}

// The 16-bit integer that stands for a real number, if one does, to the bit.
template <class Real>
std::optional<std::uint32_t> as_int16(Real value, Real scale) {
    constexpr Real kMost = std::numeric_limits<std::int16_t>::max();
    const Real multiple = value / scale;  // exact, or too large, for the scale is a power of two
    if (!(std::abs(multiple) <= kMost) || !is_plain(value)) return std::nullopt;
    const auto bits = static_cast<std::uint16_t>(static_cast<std::int16_t>(multiple));
    if (bits_of(scaled_int16<Real>(bits, scale)) != bits_of(value)) return std::nullopt;
    return bits;
}

// Calls visit(part) for the real numbers of a value, as long as it returns true; whether it always did.
template <class T, class Visit>
bool all_parts(T value, const Visit& visit) {
    if constexpr (kIsComplex<T>) {
        return visit(value.real) && visit(value.imag);
    } else {
        return visit(value);
    }
}

// The modes of the values of one matrix.
template <class T>
class ValueCoder {
public:
    // A dictionary of at most kDictionarySize values, all different; a scale of 0 goes without integers.
    ValueCoder(const std::vector<T>& dictionary, Real<T> scale) : scale_(scale) {
        codes_.fill(kNone);
        for (std::size_t code = 0; code < dictionary.size(); ++code) {
            const Bits<T> bits = bits_of(dictionary[code]);
            const std::size_t place = place_of(bits);
            known_[place] = bits;
            codes_[place] = static_cast<std::uint16_t>(code);
        }
    }

    // The mode of fewest bytes for values of several slots, calling holds(mode) for whether one is lossless for all.
    template <class Holds>
    static ValueMode cheapest(const Holds& holds) {
        // Of two with as many bytes the one that is cheaper to read.
        constexpr bool kNarrowIsSmaller = value_bytes<T>(ValueMode::kNarrow) <= value_bytes<T>(ValueMode::kInt16);
        constexpr ValueMode kSmaller = kNarrowIsSmaller ? ValueMode::kNarrow : ValueMode::kInt16;
        constexpr ValueMode kLarger = kNarrowIsSmaller ? ValueMode::kInt16 : ValueMode::kNarrow;
        for (ValueMode mode : {ValueMode::kDictionary, kSmaller, kLarger}) {
            if (holds(mode)) return mode;
        }
        return ValueMode::kFull;
    }

    // Whether the very bits of all values come back from the elements of a mode.
    bool holds(ValueMode mode, const T* values, int count) const {
        const auto all = [&](auto&& fits) { return std::all_of(values, values + count, fits); };
        const auto all_parts_of_all = [&](auto&& fits) { return all([&](T value) { return all_parts(value, fits); }); };
        switch (mode) {
            case ValueMode::kConstant:
                return all([first = bits_of(values[0])](T value) { return bits_of(value) == first; });
            case ValueMode::kFull:
                return true;
            case ValueMode::kNarrow:
                return all_parts_of_all([](auto part) { return narrowed(part).has_value(); });
            case ValueMode::kInt16:
                return scale_ != 0 &&
                       all_parts_of_all([this](auto part) { return as_int16(part, scale_).has_value(); });
            case ValueMode::kDictionary:
                return all([this](T value) { return code_of(bits_of(value)) != kNone; });
        }
        return false;
    }

    // The element of a value in a mode that has some, and holds it.
    void write(ValueMode mode, T value, Byte* to) const {
        switch (mode) {
            case ValueMode::kFull:
                std::memcpy(to, &value, sizeof(T));
                break;
            case ValueMode::kNarrow:
                write_parts<sizeof(Real<T>) / 2>(value, to, [](auto part) { return narrowed(part); });
                break;
            case ValueMode::kInt16:
                write_parts<2>(value, to, [this](auto part) { return as_int16(part, scale_); });
                break;
            case ValueMode::kDictionary:
                *to = static_cast<Byte>(code_of(bits_of(value)));
                break;
            default:
                break;
        }
    }

private:
    static constexpr std::uint16_t kNone = 0xffff;
    static constexpr std::size_t kPlaces = 4 * kDictionarySize;

    // The low bytes of what stands for the parts of a value: CUDA knows little-endian hosts only.
    template <int kBytes, class Encode>
    static void write_parts(T value, Byte* to, const Encode& encode) {
        all_parts(value, [&](auto part) {
            const std::uint32_t element = *encode(part);
            std::memcpy(to, &element, kBytes);
            to += kBytes;
            return true;
        });
    }

    // Where bits are in the table, or would be.
    std::size_t place_of(const Bits<T>& bits) const {
        std::uint64_t hash = 0;
        for (std::uint32_t word : bits.word) hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        std::size_t place = hash >> 54;
        while (codes_[place] != kNone && known_[place] != bits) place = (place + 1) % kPlaces;
        return place;
    }

    int code_of(const Bits<T>& bits) const { return codes_[place_of(bits)]; }

    std::array<Bits<T>, kPlaces> known_;
    std::array<std::uint16_t, kPlaces> codes_;
    Real<T> scale_;
};

}  // namespace spmvgpu::packed
