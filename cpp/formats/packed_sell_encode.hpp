// How packed_sell lays out a slice.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "core/csr_matrix.hpp"
#include "formats/packed_sell_modes.hpp"
#include "formats/packed_sell_values.hpp"

namespace spmvgpu::packed {

// The entries of one slot: those of the lanes in the mask, side by side.
template <class T>
struct SlotEntries {
    std::uint32_t mask = 0;
    int count = 0;
    index_t offsets[kLanes];  // column - row
    T values[kLanes];
};

// The entries of a slice, slot by slot. In either order of slots the columns of every row ascend.
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

    // How many diagonals have an entry, and thus how many slots they take; one more than `most` if there are more.
    std::int64_t count_diagonals(std::int64_t most) const {
        std::int64_t diagonals = 0;
        walk_diagonals([&](std::uint32_t) { return ++diagonals <= most; }, [](int, index_t, index_t) {});
        return diagonals;
    }

    // Calls visit(entries) for a slot of every diagonal, in order.
    template <class Visit>
    void for_each_diagonal(const Visit& visit) const {
        SlotEntries<T> entries;
        const auto finish = [&](std::uint32_t mask) {
            entries.mask = mask;
            visit(entries);
            entries.count = 0;
            return true;
        };
        walk_diagonals(finish, [&](int /*lane*/, index_t k, index_t offset) { take(k, offset, entries); });
    }

    // Calls visit(entries) for a slot of the first entry of every row, one of the second, and so on.
    template <class Visit>
    void for_each_column(const Visit& visit) const {
        SlotEntries<T> entries;
        for (index_t j = 0; j < width_; ++j) {
            entries.mask = 0;
            entries.count = 0;
            for (int lane = 0; lane < lanes_; ++lane) {
                const index_t k = begin_[lane] + j;
                if (k >= end_[lane]) continue;
                entries.mask |= 1u << lane;
                take(k, csr_.col_indices[k] - row_[lane], entries);
            }
            visit(entries);
        }
    }

private:
    void take(index_t k, index_t offset, SlotEntries<T>& entries) const {
        entries.values[entries.count] = csr_.values[k];
        entries.offsets[entries.count++] = offset;
    }

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

// How many slots are stored in which way.
struct ModeCounts {
    std::int64_t index[kIndexModes] = {}, value[kValueModes] = {};
    std::int64_t slots = 0, ragged = 0;
    std::int64_t alike = 0;  // slices whose part of the stream others share

    void add(const Head& head, int slot, bool is_ragged) {
        const bool shared = (head.shared >> slot & 1) != 0, constant = (head.constant >> slot & 1) != 0;
        ++index[static_cast<int>(shared ? IndexMode::kShared : head.index)];
        ++value[static_cast<int>(constant ? ValueMode::kConstant : head.value)];
        ++slots;
        ragged += is_ragged;
    }
    ModeCounts& operator+=(const ModeCounts& other) {
        for (int i = 0; i < kIndexModes; ++i) index[i] += other.index[i];
        for (int i = 0; i < kValueModes; ++i) value[i] += other.value[i];
        slots += other.slots;
        ragged += other.ragged;
        alike += other.alike;
        return *this;
    }
    std::int64_t of(ValueMode mode) const { return value[static_cast<int>(mode)]; }
};

// What is stored of a slice: the head of its first group, at position 0, and its part of the stream, in which nothing
// depends on where that lies.
template <class T>
class SliceEncoder {
public:
    explicit SliceEncoder(const ValueCoder<T>& coder) : coder_(coder), group_(kGroupSlots) {}

    // A slot for every diagonal, or for every entry of the longest row: whatever takes fewer bytes, if diagonals are
    // few enough for lanes not to idle.
    void encode(const SliceReader<T>& reader) {
        const std::int64_t few = reader.width() + reader.width() / 4;
        const std::int64_t diagonals = reader.count_diagonals(few);
        if (diagonals <= few) write([&](const auto& visit) { reader.for_each_diagonal(visit); });
        if (diagonals > reader.width()) {
            if (diagonals <= few) by_diagonals_ = part_;
            write([&](const auto& visit) { reader.for_each_column(visit); });
            if (diagonals <= few && by_diagonals_.bytes.size() <= part_.bytes.size()) std::swap(part_, by_diagonals_);
        }
        counts_ += part_.counts;
    }

    const Head& head() const { return part_.head; }
    const std::vector<Byte>& bytes() const { return part_.bytes; }
    std::int64_t granules() const { return static_cast<std::int64_t>(part_.bytes.size()) / kGranule; }
    const ModeCounts& counts() const { return counts_; }  // of all slices so far

private:
    static constexpr std::size_t kFirst = -1;

    struct Part {
        Head head;
        std::vector<Byte> bytes;
        ModeCounts counts;
    };

    // Writes the slots that for_each(visit) calls visit(entries) for.
    template <class ForEach>
    void write(const ForEach& for_each) {
        part_.head = {};
        part_.bytes.clear();
        part_.counts = {};
        before_ = kFirst;
        slots_ = 0;
        for_each([&](const SlotEntries<T>& entries) {
            if (slots_ == kGroupSlots) close_group(true);
            group_[slots_++] = entries;
        });
        if (slots_ > 0) close_group(false);
    }

    // Columns of a slot: offsets from the least of them, and whether lanes are missing.
    struct Columns {
        index_t least;
        std::uint32_t range;
        bool ragged;
    };
    static Columns columns_of(const SlotEntries<T>& entries) {
        const auto [least, most] = std::minmax_element(entries.offsets, entries.offsets + entries.count);
        return {*least, static_cast<std::uint32_t>(*most) - static_cast<std::uint32_t>(*least),
                entries.mask != kEveryLane};
    }

    // Writes the slots of a group behind the groups before it.
    void close_group(bool more) {
        Columns columns[kGroupSlots];
        Head head;
        head.slots = slots_;
        head.more = more;
        head.position = part_.bytes.size() / kGranule;
        std::uint32_t farthest = 0;
        for (int s = 0; s < slots_; ++s) {
            const SlotEntries<T>& entries = group_[s];
            columns[s] = columns_of(entries);
            farthest = std::max(farthest, columns[s].range);
            const bool shared = columns[s].range == 0 && !columns[s].ragged;
            const bool constant = coder_.holds(ValueMode::kConstant, entries.values, entries.count);
            head.shared |= std::uint32_t(shared) << s;
            head.constant |= std::uint32_t(constant) << s;
        }
        const std::uint32_t every_slot = head.every_slot();
        head.index = head.shared == every_slot             ? IndexMode::kShared
                     : farthest == 0                       ? IndexMode::kMasks
                     : farthest < kNoEntry<IndexMode::k8>  ? IndexMode::k8
                     : farthest < kNoEntry<IndexMode::k16> ? IndexMode::k16
                                                           : IndexMode::k32;
        if (head.index >= IndexMode::k8) head.shared = whole_batches(head.shared);
        if (head.constant != every_slot) head.value = choose_values(head);
        for (int s = 0; s < slots_; ++s) part_.counts.add(head, s, columns[s].ragged);
        write_group(head, columns);
        // The head, in the slice or in the room that the group before has left for it.
        const HeadWords words = words_of(head);
        if (before_ == kFirst) {
            part_.head = head;
        } else {
            std::memcpy(part_.bytes.data() + before_, &words, sizeof(words));
        }
        before_ = head.position * kGranule;
        slots_ = 0;
    }

    // Those of the slots whose batch has all of its slots among them.
    static std::uint32_t whole_batches(std::uint32_t slots) {
        constexpr std::uint32_t kBatch = (1u << kBatchSlots) - 1;
        std::uint32_t whole = 0;
        for (int s = 0; s < kGroupSlots; s += kBatchSlots) whole |= (slots >> s & kBatch) == kBatch ? kBatch << s : 0;
        return whole;
    }

    ValueMode choose_values(const Head& head) const {
        return ValueCoder<T>::cheapest([&](ValueMode mode) {
            for (int s = 0; s < slots_; ++s) {
                const bool constant = (head.constant >> s & 1) != 0;
                if (!constant && !coder_.holds(mode, group_[s].values, group_[s].count)) return false;
            }
            return true;
        });
    }

    void write_group(const Head& head, const Columns* columns) {
        const Sections at = sections_of<T>(head);
        const std::size_t start = part_.bytes.size();
        part_.bytes.resize(start + at.end, Byte(0));
        Byte* const group = part_.bytes.data() + start;
        Byte *constants = group + at.constants, *indices = group + at.indices, *values = group + at.values;
        for (int s = 0; s < slots_; ++s) {
            const SlotEntries<T>& entries = group_[s];
            std::memcpy(group + at.bases + 4 * s, &columns[s].least, sizeof(std::int32_t));
            if (head.index == IndexMode::kMasks) {
                std::memcpy(indices, &entries.mask, sizeof(entries.mask));
                indices += sizeof(entries.mask);
            } else if ((head.shared >> s & 1) == 0) {
                write_offsets(head.index, columns[s].least, entries, indices);
                indices += index_bytes(head.index) * kLanes;
            }
            if ((head.constant >> s & 1) != 0) {
                std::memcpy(constants, entries.values, sizeof(T));
                constants += sizeof(T);
            } else {
                const int bytes = value_bytes<T>(head.value);
                for_each_entry(entries, [&](int lane, int i) {
                    coder_.write(head.value, entries.values[i], values + lane * bytes);
                });
                values += bytes * kLanes;
            }
        }
        // Nobody has an entry in what is left of the last batch.
        if (head.index >= IndexMode::k8) std::fill(indices, group + at.values, Byte(0xff));
    }

    // How far each column is from that of the base; all ones where a lane has no entry.
    static void write_offsets(IndexMode mode, index_t base, const SlotEntries<T>& entries, Byte* to) {
        const int bytes = index_bytes(mode);
        std::memset(to, 0xff, bytes * kLanes);
        for_each_entry(entries, [&](int lane, int i) {
            const std::uint32_t offset =
                static_cast<std::uint32_t>(entries.offsets[i]) - static_cast<std::uint32_t>(base);
            std::memcpy(to + lane * bytes, &offset, bytes);
        });
    }

    // Calls visit(lane, i) for the entries of a slot.
    template <class Visit>
    static void for_each_entry(const SlotEntries<T>& entries, const Visit& visit) {
        int i = 0;
        for (std::uint32_t left = entries.mask; left != 0; left &= left - 1) visit(std::countr_zero(left), i++);
    }

    const ValueCoder<T>& coder_;
    std::vector<SlotEntries<T>> group_;  // the first slots_ of them
    int slots_ = 0;
    Part part_, by_diagonals_;
    std::size_t before_ = kFirst;  // where the group before begins in the part
    ModeCounts counts_;
};

}  // namespace spmvgpu::packed
