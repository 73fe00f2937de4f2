// How packed_sell chooses what to store of a slot, and stores it.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "core/csr_matrix.hpp"
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

    // The mode that takes fewest bytes for so many values, at least one; a known value's code goes to `code`.
    ValueMode choose(const T* values, int count, std::uint32_t& code) const {
        const Bits<T> first = bits_of(values[0]);
        const auto all = [&](auto&& holds) { return std::all_of(values, values + count, holds); };
        if (all([&](T value) { return bits_of(value) == first; })) {
            const int known = code_of(first);
            if (known == kNone) return ValueMode::kConstant;
            code = static_cast<std::uint32_t>(known);
            return ValueMode::kKnownConstant;
        }
        if (all([&](T value) { return code_of(bits_of(value)) != kNone; })) return ValueMode::kDictionary;
        const auto narrow = [](auto part) { return narrowed(part).has_value(); };
        const auto integer = [this](auto part) { return as_int16(part, scale_).has_value(); };
        const auto all_are = [&](auto&& holds) { return all([&](T value) { return all_parts(value, holds); }); };
        constexpr bool kNarrowIsSmaller = value_bytes<T>(ValueMode::kNarrow) <= value_bytes<T>(ValueMode::kInt16);
        if (kNarrowIsSmaller && all_are(narrow)) return ValueMode::kNarrow;
        if (scale_ != 0 && all_are(integer)) return ValueMode::kInt16;
        if (!kNarrowIsSmaller && all_are(narrow)) return ValueMode::kNarrow;
        return ValueMode::kFull;
    }

    // The elements of values in a mode that has some, and holds them.
    void write(ValueMode mode, const T* values, int count, Byte* to) const {
        switch (mode) {
            case ValueMode::kFull:
                std::memcpy(to, values, count * sizeof(T));
                break;
            case ValueMode::kNarrow:
                write_parts<sizeof(Real<T>) / 2>(values, count, to, [](auto part) { return narrowed(part); });
                break;
            case ValueMode::kInt16:
                write_parts<2>(values, count, to, [this](auto part) { return as_int16(part, scale_); });
                break;
            case ValueMode::kDictionary:
                for (int i = 0; i < count; ++i) to[i] = static_cast<Byte>(code_of(bits_of(values[i])));
                break;
            default:
                break;
        }
    }

private:
    static constexpr std::uint16_t kNone = 0xffff;
    static constexpr std::size_t kPlaces = 4 * kDictionarySize;

    // The low bytes of what stands for the parts of values: CUDA knows little-endian hosts only.
    template <int kBytes, class Encode>
    static void write_parts(const T* values, int count, Byte* to, const Encode& encode) {
        for (int i = 0; i < count; ++i) {
            all_parts(values[i], [&](auto part) {
                const std::uint32_t element = *encode(part);
                std::memcpy(to, &element, kBytes);
                to += kBytes;
                return true;
            });
        }
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

// The entries of one slot: those of the lanes in the mask, side by side.
template <class T>
struct SlotEntries {
    std::uint32_t mask = 0;
    int count = 0;
    index_t offsets[kLanes];  // column - row
    T values[kLanes];
};

// The entries of a slice, slot by slot.
template <class T>
class SliceReader {
public:
    // At most kLanes rows of the matrix.
    template <class RowAt>
    SliceReader(const CsrMatrix<T>& csr, int lanes, const RowAt& row_at) : csr_(csr), lanes_(lanes) {
        for (int lane = 0; lane < kLanes; ++lane) {
            row_[lane] = lane < lanes ? row_at(lane) : 0;
            begin_[lane] = lane < lanes ? csr.row_offsets[row_[lane]] : 0;
            end_[lane] = lane < lanes ? csr.row_offsets[row_[lane] + 1] : 0;
            width_ = std::max(width_, end_[lane] - begin_[lane]);
        }
    }

    index_t width() const { return width_; }

    // Calls visit(entries) for the slots in order, in which the columns of every row ascend: a slot for every diagonal
    // with an entry where these are few, else one for the first entry of every row, and so on.
    template <class Visit>
    void for_each_slot(const Visit& visit) {
        const std::int64_t few = width_ + width_ / 4;
        std::int64_t diagonals = 0;
        walk_diagonals([&](std::uint32_t) { return ++diagonals <= few; }, [](int, index_t, index_t) {});
        SlotEntries<T> entries;
        const auto take = [&](int /*lane*/, index_t k, index_t offset) {
            entries.values[entries.count] = csr_.values[k];
            entries.offsets[entries.count++] = offset;
        };
        if (diagonals <= few) {
            entries.count = 0;
            walk_diagonals(
                [&](std::uint32_t mask) {
                    entries.mask = mask;
                    visit(entries);
                    entries.count = 0;
                    return true;
                },
                take);
            return;
        }
        for (index_t j = 0; j < width_; ++j) {
            entries.mask = 0;
            entries.count = 0;
            for (int lane = 0; lane < lanes_; ++lane) {
                const index_t k = begin_[lane] + j;
                if (k >= end_[lane]) continue;
                entries.mask |= 1u << lane;
                take(lane, k, csr_.col_indices[k] - row_[lane]);
            }
            visit(entries);
        }
    }

private:
    // Walks the diagonals with an entry, in order: calls take(lane, k, offset) for the entries of one, and then
    // finish(mask) with their lanes, until that returns false.
    template <class Finish, class Take>
    void walk_diagonals(const Finish& finish, const Take& take) const {
        constexpr index_t kEnded = std::numeric_limits<index_t>::max();  // no offset: columns are fewer
        index_t next[kLanes], offset[kLanes];
        const auto look = [&](int lane) {
            offset[lane] = next[lane] < end_[lane] ? csr_.col_indices[next[lane]] - row_[lane] : kEnded;
        };
        for (int lane = 0; lane < kLanes; ++lane) {
            next[lane] = begin_[lane];
            look(lane);
        }
        while (true) {
            index_t least = kEnded;
            for (int lane = 0; lane < kLanes; ++lane) least = std::min(least, offset[lane]);
            if (least == kEnded) return;
            std::uint32_t mask = 0;
            for (int lane = 0; lane < kLanes; ++lane) mask |= std::uint32_t(offset[lane] == least) << lane;
            for (std::uint32_t left = mask; left != 0; left &= left - 1) {
                const int lane = std::countr_zero(left);
                take(lane, next[lane]++, least);
                look(lane);
            }
            if (!finish(mask)) return;
        }
    }

    const CsrMatrix<T>& csr_;
    int lanes_;
    index_t width_ = 0;
    index_t row_[kLanes], begin_[kLanes], end_[kLanes];
};

// What is stored of a slot, its place left open.
template <class T>
Slot describe(const SlotEntries<T>& entries, const ValueCoder<T>& coder) {
    Slot slot;
    index_t least = entries.offsets[0], most = least;
    for (int i = 1; i < entries.count; ++i) {
        least = std::min(least, entries.offsets[i]);
        most = std::max(most, entries.offsets[i]);
    }
    const std::uint32_t range = static_cast<std::uint32_t>(most) - static_cast<std::uint32_t>(least);
    slot.base = least;
    slot.index = range == 0        ? IndexMode::kShared
                 : range <= 0xff   ? IndexMode::k8
                 : range <= 0xffff ? IndexMode::k16
                                   : IndexMode::k32;
    slot.value = coder.choose(entries.values, entries.count, slot.code);
    slot.value_bytes = value_bytes<T>(slot.value);
    slot.ragged = entries.mask != kEveryLane;
    return slot;
}

// The indices of a slot: how far each column is from that of the base.
template <class Element, class T>
void write_offsets_as(std::int32_t base, const SlotEntries<T>& entries, Byte* to) {
    for (int i = 0; i < entries.count; ++i, to += sizeof(Element)) {
        const auto offset =
            static_cast<Element>(static_cast<std::uint32_t>(entries.offsets[i]) - static_cast<std::uint32_t>(base));
        std::memcpy(to, &offset, sizeof(Element));
    }
}
template <class T>
void write_offsets(const Slot& slot, const SlotEntries<T>& entries, Byte* to) {
    switch (slot.index) {
        case IndexMode::k8:
            return write_offsets_as<std::uint8_t>(slot.base, entries, to);
        case IndexMode::k16:
            return write_offsets_as<std::uint16_t>(slot.base, entries, to);
        case IndexMode::k32:
            return write_offsets_as<std::uint32_t>(slot.base, entries, to);
        default:
            break;
    }
}

// Lays out the slots of a slice, and writes them unless there is nowhere to.
template <class T>
class SliceWriter {
public:
    SliceWriter() = default;
    SliceWriter(std::uint64_t* words, Byte* stream, std::int64_t start)
        : words_(words), stream_(stream), granules_(start) {}

    std::int64_t words() const { return word_count_; }
    std::int64_t granules() const { return granules_; }  // up to which the stream is taken

    void add(Slot slot, const SlotEntries<T>& entries, const ValueCoder<T>& coder) {
        if (slots_ == kGroupSlots) close_group();
        if (slots_ == 0) header_ = word_count_++;
        const int values = slot.value_bytes * entries.count;
        const int indices = indices_behind_values(slot.value_bytes, entries.count);
        const int bytes = slot.index == IndexMode::kShared ? values : indices + index_bytes(slot.index) * entries.count;
        slot.position = bytes > 0 ? elements_ : 0;
        if (slot.ragged) masks_[ragged_++] = entries.mask;
        if (slot.value == ValueMode::kConstant) constants_[constant_++] = entries.values[0];
        if (words_ != nullptr) {
            words_[word_count_] = word_of(slot);
            Byte* const to = stream_ + (granules_ + elements_) * kGranule;
            std::fill(to + values, to + granules_of(bytes) * kGranule, Byte(0));
            coder.write(slot.value, entries.values, entries.count, to);
            write_offsets(slot, entries, to + indices);
        }
        elements_ += granules_of(bytes);
        ++slots_;
        ++word_count_;
    }

    // To be called after the last slot.
    void close_group() {
        if (slots_ == 0) return;
        if (words_ != nullptr) words_[header_] = word_of(Group{static_cast<std::uint64_t>(granules_), elements_});
        granules_ += elements_;
        append(masks_, ragged_);
        append(constants_, constant_);
        elements_ = 0;
        slots_ = ragged_ = constant_ = 0;
    }

private:
    template <class Item>
    void append(const Item* items, int count) {
        const std::size_t bytes = count * sizeof(Item), taken = granules_of(bytes) * kGranule;
        if (words_ != nullptr && count > 0) {
            Byte* const to = stream_ + granules_ * kGranule;
            std::memcpy(to, items, bytes);
            std::fill(to + bytes, to + taken, Byte(0));
        }
        granules_ += static_cast<std::int64_t>(taken / kGranule);
    }

    std::uint64_t* words_ = nullptr;  // of the slice
    Byte* stream_ = nullptr;          // of the matrix
    std::int64_t granules_ = 0;       // where the group begins
    std::int64_t word_count_ = 0, header_ = 0;
    std::uint32_t elements_ = 0;
    int slots_ = 0, ragged_ = 0, constant_ = 0;
    std::uint32_t masks_[kGroupSlots];
    T constants_[kGroupSlots];
};

}  // namespace spmvgpu::packed
