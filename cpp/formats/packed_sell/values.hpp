// Codes of values that packed_sell stores in a byte; for the CPU and the GPU.
#pragma once

#include <bit>
#include <vector>

#include "core/array.hpp"
#include "formats/packed_sell/modes.hpp"

namespace spmvgpu::packed {

template <class T>
SPMVGPU_IN_BODY Bits<T> bits_of(T value) {
    return std::bit_cast<Bits<T>>(value);
}

// Codes of the values in a dictionary, by their bits: a hash table, which the host makes.
template <class T>
struct CodeTable {
    static constexpr std::uint32_t kPlaces = 4 * kDictionarySize;
    static constexpr std::uint16_t kNone = 0xffff;

    Bits<T> known[kPlaces];
    std::uint16_t codes[kPlaces];

    // The place of these bits in the table, stored or not.
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

template <class T>
struct ValueCoder {
    const CodeTable<T>* table;  // null without a dictionary

    SPMVGPU_IN_BODY bool has_code(T value) const {
        return table != nullptr && table->code_of(bits_of(value)) != CodeTable<T>::kNone;
    }

    // The element of a value in a mode that has it, in the low bytes.
    SPMVGPU_IN_BODY Bits<T> element(ValueMode mode, T value) const {
        if (mode == ValueMode::kFull) return bits_of(value);
        Bits<T> bits{};
        bits.word[0] = table->code_of(bits_of(value));
        return bits;
    }
};

}  // namespace spmvgpu::packed
