// Decides which rows of the format stencil share slots, and which stencils are equal in three layers, on the CPU and
// from one row of each kind.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "core/complex.hpp"
#include "formats/stencil/layout.hpp"

namespace spmvgpu {

// A row without its number.
template <class T>
struct StencilRow {
    std::vector<index_t> offsets;
    std::vector<T> values;

    // A mask of the entries of another pattern that this one has, if it has no others.
    std::optional<std::vector<Word>> part_of(const StencilRow& other) const {
        std::vector<Word> has(words_for(other.offsets.size()));
        std::size_t i = 0;
        for (std::size_t k = 0; k < other.offsets.size() && i < offsets.size(); ++k) {
            if (other.offsets[k] != offsets[i] || !same_bits(other.values[k], values[i])) continue;
            has[k / kWordBits] |= Word(1) << k % kWordBits;
            ++i;
        }
        return i == offsets.size() ? std::optional(has) : std::nullopt;
    }
};

// Longest rows that share the slots of others.
constexpr index_t kLongestShared = 256;

// The number of slots in a third of a pattern that is equal in three layers, this many rows apart; 0 if it is not.
template <class T>
index_t third_of(const StencilRow<T>& pattern, std::int64_t layer_rows) {
    const std::size_t third = pattern.offsets.size() / 3;
    if (layer_rows == 0 || 3 * third != pattern.offsets.size() || third > RowKind::kMostThird) return 0;
    for (std::size_t i = third; i < pattern.offsets.size(); ++i) {
        if (std::int64_t(pattern.offsets[i]) - pattern.offsets[i - third] != layer_rows) return 0;
    }
    return static_cast<index_t>(third);
}

// Rows from a layer to the next one, if a pattern is equal in three; 0 if there are few layers, or short ones, or if so
// little is gathered that finding the shared part takes longer.
template <class T>
index_t find_layers(const StencilRow<T>& pattern, index_t rows) {
    constexpr index_t kLeastRows = 64, kLeastLayers = 16, kLeastBytes = 64;
    if (pattern.offsets.size() < 3) return 0;
    const std::int64_t apart = std::int64_t(pattern.offsets[pattern.offsets.size() / 3]) - pattern.offsets.front();
    const index_t bytes = third_of(pattern, apart) * static_cast<index_t>(sizeof(T));
    return bytes >= kLeastBytes && apart >= kLeastRows && rows / apart >= kLeastLayers ? static_cast<index_t>(apart)
                                                                                       : 0;
}

struct Kinds {
    std::vector<RowKind> all;
    std::vector<Word> masks;
    index_t layer_rows;
};

// A warp of a GPU reads the slots of its rows together only if these have the same stencil, so a row with a part of
// another's entries shares its slots. The longest rows are tried first, and not more than kMostAsked.
template <class T>
Kinds share_slots(const std::vector<index_t>& lengths, const std::vector<StencilRow<T>>& patterns, index_t rows) {
    constexpr std::size_t kMostAsked = 32;
    const auto count = static_cast<index_t>(lengths.size());
    std::vector<index_t> order(count);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](index_t a, index_t b) { return lengths[a] > lengths[b]; });
    std::vector<index_t> asked, owners(count);
    std::vector<std::vector<Word>> has(count);
    for (const index_t kind : order) {
        const index_t length = lengths[kind];
        owners[kind] = kind;
        has[kind].assign(words_for(length), ~Word(0));
        if (length % kWordBits != 0) has[kind].back() = (Word(1) << length % kWordBits) - 1;
        if (length > kLongestShared) continue;
        for (std::size_t i = 0; i < asked.size() && owners[kind] == kind; ++i) {
            if (auto part = patterns[kind].part_of(patterns[asked[i]])) {
                owners[kind] = asked[i];
                has[kind] = std::move(*part);
            }
        }
        if (owners[kind] == kind && asked.size() < kMostAsked) asked.push_back(kind);
    }
    Kinds kinds{{}, {}, find_layers(asked.empty() ? StencilRow<T>{} : patterns[asked.front()], rows)};
    for (index_t kind = 0; kind < count; ++kind) {
        const index_t owner = owners[kind], third = third_of(patterns[owner], kinds.layer_rows);
        kinds.all.push_back({0, lengths[owner], static_cast<index_t>(kinds.masks.size()),
                             static_cast<std::uint16_t>(owner), static_cast<std::uint16_t>(third)});
        kinds.masks.insert(kinds.masks.end(), has[kind].begin(), has[kind].end());
        for (index_t i = 0; i < 3 * third; ++i) {
            if (i % third == 0) kinds.masks.push_back(0);
            kinds.masks.back() |= (has[kind][i / kWordBits] >> i % kWordBits & 1) << i % third;
        }
    }
    return kinds;
}

}  // namespace spmvgpu
