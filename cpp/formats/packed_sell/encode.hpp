// How packed_sell lays out a slice; on the CPU and on a GPU, where a warp does it.
#pragma once

#include <limits>

#include "core/passes/lanes.hpp"
#include "formats/packed_sell/modes.hpp"
#include "formats/packed_sell/values.hpp"

namespace spmvgpu::packed {

// The rows of the slices, and the codes of their values.
template <class T>
struct SliceSource {
    index_t rows;
    const index_t *row_offsets, *col_indices;
    const T* values;
    const index_t* permutation;  // row at a place of a slice; nullptr where rows are in order
    ValueCoder<T> coder;
};

// The entries of a slice, slot by slot: a slot holds one diagonal, or the n-th entries of all rows. In either order the
// columns of every row ascend.
template <class T, class Lanes>
class SliceReader {
    template <class U>
    using PerLane = typename Lanes::template PerLane<U>;
    // Above all offsets, because columns are fewer.
    static constexpr index_t kEnded = std::numeric_limits<index_t>::max();

public:
    SPMVGPU_IN_BODY SliceReader(const Lanes& lanes, const SliceSource<T>& source, index_t slice) : source_(source) {
        lanes.each([&](int lane) {
            const std::int64_t i = std::int64_t(slice) * kLanes + lane;
            const bool is_there = i < source.rows;
            index_t row = 0;
            if (is_there) row = source.permutation == nullptr ? static_cast<index_t>(i) : source.permutation[i];
            row_[lane] = row;
            next_[lane] = is_there ? source.row_offsets[row] : 0;
            end_[lane] = is_there ? source.row_offsets[row + 1] : 0;
            look(lane);
        });
    }

    SPMVGPU_IN_BODY index_t width(const Lanes& lanes) const {
        return lanes.largest([&](int lane) { return end_[lane] - next_[lane]; });
    }

    // The number of diagonals that have an entry, and thus of their slots; `most` + 1 if there are more.
    SPMVGPU_IN_BODY std::int64_t count_diagonals(const Lanes& lanes, std::int64_t most) const {
        SliceReader reader = *this;
        std::int64_t diagonals = 0;
        while (diagonals <= most && reader.advance(lanes, true)) ++diagonals;
        return diagonals;
    }

    SPMVGPU_IN_BODY bool advance(const Lanes& lanes, bool by_diagonals) {
        if (by_diagonals) {
            const index_t least = lanes.least([&](int lane) { return ahead_[lane]; });
            mask_ = least == kEnded ? 0 : lanes.those([&](int lane) { return ahead_[lane] == least; });
        } else {
            mask_ = lanes.those([&](int lane) { return ahead_[lane] != kEnded; });
        }
        lanes.each([&](int lane) {
            if (!has(lane)) return;
            offset_[lane] = ahead_[lane];
            value_[lane] = source_.values[next_[lane]++];
            look(lane);
        });
        return mask_ != 0;
    }
    SPMVGPU_IN_BODY bool has_more(const Lanes& lanes) const {
        return lanes.those([&](int lane) { return ahead_[lane] != kEnded; }) != 0;
    }

    // The current slot: a mask of the lanes with an entry, and for these the column less the row, and the value.
    SPMVGPU_IN_BODY std::uint32_t mask() const { return mask_; }
    SPMVGPU_IN_BODY bool has(int lane) const { return (mask_ >> lane & 1) != 0; }
    SPMVGPU_IN_BODY index_t offset(int lane) const { return offset_[lane]; }
    SPMVGPU_IN_BODY const T& value(int lane) const { return value_[lane]; }
    SPMVGPU_IN_BODY index_t least_offset(const Lanes& lanes) const {
        return lanes.least([&](int lane) { return has(lane) ? offset_[lane] : kEnded; });
    }
    SPMVGPU_IN_BODY index_t largest_offset(const Lanes& lanes) const {
        return lanes.largest([&](int lane) { return has(lane) ? offset_[lane] : -kEnded; });
    }
    SPMVGPU_IN_BODY Bits<T> first_bits(const Lanes& lanes) const {
        return lanes.of(first_lane(), [&](int lane) { return bits_of(value_[lane]); });
    }

private:
    SPMVGPU_IN_BODY void look(int lane) {
        ahead_[lane] = next_[lane] < end_[lane] ? source_.col_indices[next_[lane]] - row_[lane] : kEnded;
    }
    SPMVGPU_IN_BODY int first_lane() const { return count_bits((mask_ & (0u - mask_)) - 1); }

    const SliceSource<T>& source_;
    PerLane<index_t> row_, next_, end_;
    PerLane<index_t> ahead_;  // the offset of the lane's next entry; kEnded behind the last one
    PerLane<index_t> offset_{};
    PerLane<T> value_{};
    std::uint32_t mask_ = 0;
};

// The slots in complete batches, all of whose slots are among the given ones.
SPMVGPU_IN_BODY constexpr std::uint32_t whole_batches(std::uint32_t slots) {
    constexpr std::uint32_t kBatch = (1u << kBatchSlots) - 1;
    std::uint32_t whole = 0;
    for (int s = 0; s < kGroupSlots; s += kBatchSlots) whole |= (slots >> s & kBatch) == kBatch ? kBatch << s : 0;
    return whole;
}

// The head of the group of slots that begins here, without its position; the reader goes to its end.
template <class T, class Lanes>
SPMVGPU_IN_BODY Head describe_group(const Lanes& lanes, SliceReader<T, Lanes>& reader, bool by_diagonals,
                                    const ValueCoder<T>& coder, ModeCounts& counts) {
    bool in_dictionary = true;
    Head head;
    std::uint32_t farthest = 0;
    int ragged = 0;
    while (head.slots < kGroupSlots && reader.advance(lanes, by_diagonals)) {
        const int s = head.slots++;
        const std::uint32_t range = static_cast<std::uint32_t>(reader.largest_offset(lanes)) -
                                    static_cast<std::uint32_t>(reader.least_offset(lanes));
        const bool is_ragged = reader.mask() != kEveryLane;
        if (range > farthest) farthest = range;
        ragged += is_ragged;
        head.shared |= std::uint32_t(range == 0 && !is_ragged) << s;
        const Bits<T> first = reader.first_bits(lanes);
        const auto all = [&](const auto& holds) {
            return lanes.those([&](int lane) { return reader.has(lane) && !holds(reader.value(lane)); }) == 0;
        };
        const bool constant = all([&](const T& value) { return bits_of(value) == first; });
        head.constant |= std::uint32_t(constant) << s;
        if (constant) continue;
        in_dictionary = in_dictionary && all([&](const T& value) { return coder.has_code(value); });
    }
    const std::uint32_t every_slot = head.every_slot();
    head.index = head.shared == every_slot             ? IndexMode::kShared
                 : farthest == 0                       ? IndexMode::kMasks
                 : farthest < kNoEntry<IndexMode::k8>  ? IndexMode::k8
                 : farthest < kNoEntry<IndexMode::k16> ? IndexMode::k16
                                                       : IndexMode::k32;
    if (head.index >= IndexMode::k8) head.shared = whole_batches(head.shared);
    if (head.constant != every_slot) {
        head.value = in_dictionary ? ValueMode::kDictionary : ValueMode::kFull;
    }
    head.more = reader.has_more(lanes);
    counts.add(head, ragged);
    return head;
}

// The layout of a slice: the head of its first group, at position 0, and the size of its part of the stream, whose
// contents do not depend on its position.
struct SliceLayout {
    Head head;
    std::int64_t bytes = 0;
    bool by_diagonals = false;
    ModeCounts counts;
};

template <class T, class Lanes>
SPMVGPU_IN_BODY SliceLayout measure(const Lanes& lanes, SliceReader<T, Lanes> reader, bool by_diagonals,
                                    const ValueCoder<T>& coder) {
    SliceLayout layout;
    layout.by_diagonals = by_diagonals;
    bool is_first = true, more = reader.has_more(lanes);
    while (more) {
        const Head head = describe_group(lanes, reader, by_diagonals, coder, layout.counts);
        if (is_first) layout.head = head;
        is_first = false;
        more = head.more;
        layout.bytes += sections_of<T>(head).end;
    }
    return layout;
}

// Chooses between a slot for every diagonal and a slot for every entry of the longest row: the smaller one, if
// diagonals are few enough for lanes not to idle.
template <class T, class Lanes>
SPMVGPU_IN_BODY SliceLayout lay_out(const Lanes& lanes, const SliceReader<T, Lanes>& reader,
                                    const ValueCoder<T>& coder) {
    const std::int64_t width = reader.width(lanes), few = width + width / 4;
    const std::int64_t diagonals = reader.count_diagonals(lanes, few);
    if (diagonals <= width) return measure(lanes, reader, true, coder);
    const SliceLayout by_columns = measure(lanes, reader, false, coder);
    if (diagonals > few) return by_columns;
    const SliceLayout by_diagonals = measure(lanes, reader, true, coder);
    return by_diagonals.bytes <= by_columns.bytes ? by_diagonals : by_columns;
}

// Stores the low bytes of `bits` at a place behind the start of a slice's part.
struct StoreSink {
    Byte* to;

    SPMVGPU_IN_BODY void put(std::int64_t place, std::uint64_t bits, int bytes) const {
        Byte* const here = to + place;
        switch (bytes) {
            case 1:
                *here = static_cast<Byte>(bits);
                break;
            case 2:
                store_element(here, static_cast<std::uint16_t>(bits));
                break;
            case 4:
                store_element(here, static_cast<std::uint32_t>(bits));
                break;
            default:
                store_element(here, bits);
        }
    }
};

template <class T>
SPMVGPU_IN_BODY void put_bits(const StoreSink& sink, std::int64_t place, const Bits<T>& bits, int bytes) {
    if (bytes <= 4) return sink.put(place, bits.word[0], bytes);
    for (int word = 0; 4 * word < bytes; word += 2) {
        sink.put(place + 4 * word, bits.word[word] | std::uint64_t(bits.word[(word + 1) % (sizeof(T) / 4)]) << 32, 8);
    }
}

// Stores a slice. The memory is zero where no element is stored. A lane stores its own elements.
template <class T, class Lanes>
SPMVGPU_IN_BODY void put_slice(const Lanes& lanes, SliceReader<T, Lanes> reader, const SliceLayout& layout,
                               const ValueCoder<T>& coder, const StoreSink& sink) {
    const bool by_diagonals = layout.by_diagonals;
    std::int64_t start = 0, before = -1;  // where this group begins, and the one before
    bool more = layout.bytes > 0;
    while (more) {
        SliceReader<T, Lanes> group = reader;
        ModeCounts ignored;
        Head head = describe_group(lanes, reader, by_diagonals, coder, ignored);
        head.position = static_cast<std::uint64_t>(start / kGranule);
        more = head.more;
        if (before >= 0) {
            const HeadWords words = words_of(head);
            lanes.once([&] {
                sink.put(before, words.masks, 8);
                sink.put(before + 8, words.rest, 8);
            });
        }
        before = start;
        const Sections at = sections_of<T>(head);
        std::int64_t constants = start + at.constants, indices = start + at.indices, values = start + at.values;
        const int index_size = index_bytes(head.index), value_size = value_bytes<T>(head.value);
        for (int s = 0; s < head.slots; ++s) {
            group.advance(lanes, by_diagonals);
            const index_t base = group.least_offset(lanes);
            const std::uint32_t mask = group.mask();
            lanes.once([&] { sink.put(start + at.bases + 4 * s, static_cast<std::uint32_t>(base), 4); });
            if (head.index == IndexMode::kMasks) {
                lanes.once([&] { sink.put(indices, mask, 4); });
                indices += 4;
            } else if ((head.shared >> s & 1) == 0) {
                lanes.each([&](int lane) {
                    const std::uint32_t offset =
                        static_cast<std::uint32_t>(group.offset(lane)) - static_cast<std::uint32_t>(base);
                    sink.put(indices + lane * index_size, group.has(lane) ? offset : 0xffffffffu, index_size);
                });
                indices += index_size * kLanes;
            }
            if ((head.constant >> s & 1) != 0) {
                const Bits<T> bits = group.first_bits(lanes);
                lanes.once([&] { put_bits(sink, constants, bits, sizeof(T)); });
                constants += sizeof(T);
            } else {
                lanes.each([&](int lane) {
                    if (!group.has(lane)) return;
                    put_bits(sink, values + lane * value_size, coder.element(head.value, group.value(lane)),
                             value_size);
                });
                values += value_size * kLanes;
            }
        }
        // Lanes have no entries in the rest of the last batch, and the section is filled up with such elements.
        if (head.index >= IndexMode::k8) {
            lanes.each([&](int lane) {
                for (std::int64_t place = indices + 4 * lane; place < start + at.values; place += 4 * kLanes) {
                    sink.put(place, 0xffffffffu, 4);
                }
            });
        }
        start += at.end;
    }
}

}  // namespace spmvgpu::packed
