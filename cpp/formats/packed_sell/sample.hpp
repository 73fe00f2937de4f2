// What packed_sell has one of for all slots, and what many slices share, from samples of a matrix; on the host.
#pragma once

#include <vector>

#include "formats/packed_sell/modes.hpp"

namespace spmvgpu::packed {

// What a matrix has one of is worth having if it serves at least this part of a sample: one in so many.
inline constexpr std::size_t kWorthHaving = 8;

// The values that come up more than once, the most frequent ones if they are too many.
template <class T>
std::vector<T> find_dictionary(const std::vector<T>& sample);

// The power of two of which most values are multiples that 16 bits count, the nearest to 1 of several; 0 if it serves
// few of them.
template <class T>
Real<T> find_scale(const std::vector<T>& sample);

// The part of the stream of a slice: what it follows from, but for a hash that two may have.
struct PartKey {
    HeadWords head;      // at position 0
    std::uint64_t hash;  // of what is put there
    std::int64_t bytes;

    constexpr bool operator==(const PartKey&) const = default;
    constexpr auto operator<=>(const PartKey&) const = default;
};

// A part that several slices share.
struct CommonPart {
    PartKey key;
    std::int64_t sample;    // the first slice of the sample that has it
    std::int64_t position;  // in granules
};

// The parts that come up more than once in a sample, the most frequent ones first, one behind the other.
std::vector<CommonPart> find_common_parts(const std::vector<PartKey>& sample);

}  // namespace spmvgpu::packed
