// The different numbers in groups of numbers, ascending: what patterns of products of sparse matrices are made of. As
// passes on any device; see core/passes/passes.hpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/csr_matrix.hpp"
#include "core/host_vector.hpp"
#include "core/interrupt.hpp"
#include "core/parallel.hpp"
#include "core/passes/host_passes.hpp"
#include "core/passes/lanes.hpp"
#include "core/passes/passes.hpp"

namespace spmvgpu::multigrid {

// Where the entries of a matrix are.
struct Pattern {
    index_t rows = 0, cols = 0, nnz = 0;
    Array<index_t> row_offsets, col_indices;

    CsrPattern view() const { return {rows, cols, nnz, row_offsets.data(), col_indices.data()}; }
    std::size_t bytes() const { return row_offsets.bytes() + col_indices.bytes(); }
};

// A row whose groups hold up to so many numbers is one thread's, which keeps them sorted in a list; others are a
// warp's, which keeps a hash table.
constexpr index_t kListed = 64;
constexpr index_t kClassFactor = 8;  // between the sizes of tables
constexpr int kClasses = 4;          // the list, and tables of three sizes

// How many rows there are of each class, and how long they may become.
struct RowBounds {
    std::int64_t rows[kClasses] = {};
    std::int64_t all = 0;
    index_t longest = 0;

    constexpr RowBounds& operator+=(const RowBounds& other) {
        for (int c = 0; c < kClasses; ++c) rows[c] += other.rows[c];
        all += other.all;
        if (other.longest > longest) longest = other.longest;
        return *this;
    }
};

constexpr int class_of(index_t bound) {
    int found = 0;
    for (index_t limit = kListed; found + 1 < kClasses && bound > limit; limit *= kClassFactor) ++found;
    return found;
}

// Inserts the numbers of a group into a sorted list, and returns how many are different.
template <class Group>
SPMVGPU_IN_BODY index_t list_distinct(const Group& group, index_t* list) {
    index_t count = 0;
    for (index_t i = 0; i < group.runs; ++i) {
        const Run run = group.run(i);
        for (index_t k = run.begin; k < run.end; ++k) {
            const index_t number = group.number(run, k);
            index_t at = count;
            while (at > 0 && list[at - 1] > number) --at;
            if (at > 0 && list[at - 1] == number) continue;
            for (index_t other = count; other > at; --other) list[other] = list[other - 1];
            list[at] = number;
            ++count;
        }
    }
    return count;
}

constexpr Word kFreeWord = std::numeric_limits<Word>::max();

// Puts a number into a free slot, as several lanes may do at once; returns what was there before.
SPMVGPU_IN_BODY Word claim(Word* slot, Word number) {
#ifdef __CUDA_ARCH__
    const Word seen = *static_cast<volatile Word*>(slot);
    return seen == kFreeWord ? atomicCAS(slot, kFreeWord, number) : seen;
#else
    const Word seen = *slot;
    if (seen == kFreeWord) *slot = number;
    return seen;
#endif
}

// Collects the different numbers of a group in a hash table; see first_slot(). Each lane takes whole runs.
template <class Lanes, class Group>
SPMVGPU_IN_BODY void hash_distinct(const Lanes& lanes, const Group& group, Word* slots, int slot_bits) {
    const Word mask = (Word(1) << slot_bits) - 1;
    lanes.share(static_cast<index_t>(mask) + 1, [&](index_t i) { slots[i] = kFreeWord; });
    lanes.share(group.runs, [&](index_t i) {
        const Run run = group.run(i);
        for (index_t k = run.begin; k < run.end; ++k) {
            const auto number = static_cast<Word>(group.number(run, k));
            Word at = first_slot(number, slot_bits);
            for (Word seen = claim(slots + at, number); seen != kFreeWord && seen != number;
                 seen = claim(slots + at, number)) {
                at = (at + 1) & mask;
            }
        }
    });
}

// Refuses a product that has more entries than can be counted.
inline void check_entries(std::int64_t entries) {
    if (entries <= std::numeric_limits<index_t>::max()) return;
    throw std::invalid_argument("a product of the hierarchy would have " + std::to_string(entries) +
                                " stored entries; at most 2**31 - 1 are allowed");
}

// distinct_pattern(passes, rows, cols, group_of, work): the pattern whose row i has the different numbers of the group
// group_of(i), which are below `cols`. A group is what passes.distinct() takes, without a tally.

// The different numbers of one group at a time, on the CPU: a hash table whose slots are the numbers of the present
// round.
class DistinctNumbers {
public:
    // Appends those of a group of at most `bound` numbers to a list, ascending.
    template <class Group>
    void append(const Group& group, index_t bound, HostVector<index_t>& list) {
        if (slots_.size() < std::size_t(bound)) {
            bits_ = slot_bits_for(bound);
            slots_.assign(std::size_t(1) << bits_, 0);
            round_ = 0;
        }
        if (++round_ == 0) {  // after 2^32 groups
            std::fill(slots_.begin(), slots_.end(), 0);
            round_ = 1;
        }
        const std::uint64_t tag = std::uint64_t(round_) << kNumberShift;
        const std::size_t begin = list.size();
        const std::uint32_t mask = static_cast<std::uint32_t>(slots_.size()) - 1;
        for (index_t i = 0; i < group.runs; ++i) {
            const Run run = group.run(i);
            for (index_t k = run.begin; k < run.end; ++k) {
                const index_t number = group.number(run, k);
                const std::uint64_t own = tag | static_cast<std::uint32_t>(number);
                std::uint32_t at = first_slot(static_cast<std::uint64_t>(number), bits_);
                while (slots_[at] != own && slots_[at] >= tag) at = (at + 1) & mask;
                if (slots_[at] == own) continue;
                slots_[at] = own;
                list.push_back(number);
            }
        }
        std::sort(list.begin() + begin, list.end());
    }

private:
    static constexpr int kNumberShift = 32;
    HostVector<std::uint64_t> slots_;
    int bits_ = 0;
    std::uint32_t round_ = 0;
};

// On the CPU each piece of the rows makes lists, which are put together.
template <class GroupOf>
Pattern distinct_pattern(HostPasses& passes, index_t rows, index_t cols, const GroupOf& group_of, std::int64_t work) {
    Pattern pattern{rows, cols, 0, Array<index_t>(rows + std::size_t(1)), {}};
    index_t* const offsets = pattern.row_offsets.data();
    const std::int64_t pieces = std::max<std::int64_t>(1, std::min<std::int64_t>(rows, piece_count(work * rows)));
    std::vector<HostVector<index_t>> lists(pieces);
    for_each_piece(pieces, [&](std::int64_t p) {
        DistinctNumbers numbers;
        InterruptTimer timer;
        for (std::int64_t row = part_begin(rows, pieces, p); row < part_begin(rows, pieces, p + 1); ++row) {
            const auto group = group_of(row);
            std::int64_t sum = 0;
            for (index_t i = 0; i < group.runs; ++i) {
                const Run run = group.run(i);
                sum += run.end - run.begin;
            }
            const std::size_t before = lists[p].size();
            numbers.append(group, static_cast<index_t>(std::min<std::int64_t>(sum, cols)), lists[p]);
            offsets[row] = static_cast<index_t>(lists[p].size() - before);
            timer.work(sum + 1);
        }
    });
    std::int64_t all = 0;
    for (const auto& list : lists) all += static_cast<std::int64_t>(list.size());
    check_entries(all);
    pattern.nnz = passes.scan(offsets, rows);
    pattern.col_indices = Array<index_t>(pattern.nnz);
    for_each_piece(pieces, [&](std::int64_t p) {
        std::copy(lists[p].begin(), lists[p].end(), pattern.col_indices.data() + offsets[part_begin(rows, pieces, p)]);
    });
    return pattern;
}

template <class Passes, class GroupOf>
Pattern distinct_pattern(Passes& passes, index_t rows, index_t cols, const GroupOf& group_of, std::int64_t work) {
    Array<index_t> row_bounds = passes.template scratch<index_t>(rows);
    index_t* const bounds = row_bounds.data();
    const auto found = passes.template reduce<RowBounds>(
        rows,
        [=] SPMVGPU_BODY(std::int64_t row) {
            const auto group = group_of(row);
            std::int64_t sum = 0;
            for (index_t i = 0; i < group.runs; ++i) {
                const Run run = group.run(i);
                sum += run.end - run.begin;
            }
            RowBounds own;
            own.longest = bounds[row] = static_cast<index_t>(sum < cols ? sum : cols);
            own.rows[class_of(sum < kListed ? static_cast<index_t>(sum) : bounds[row])] = 1;
            own.all = bounds[row];
            if (sum > kListed && bounds[row] <= kListed) {  // a list is for few numbers, equal ones included
                own.rows[0] = 0;
                own.rows[1] = 1;
                bounds[row] = kListed + 1;
            }
            return own;
        },
        work);
    Pattern pattern{rows, cols, 0, passes.template make<index_t>(rows + std::size_t(1)), {}};
    index_t* const offsets = pattern.row_offsets.data();
    Array<index_t> of_class[kClasses];
    for (int c = 1; c < kClasses; ++c) {
        if (found.rows[c] == 0 || found.rows[c] == rows) continue;
        of_class[c] = select(passes, rows, [=] SPMVGPU_BODY(std::int64_t row) { return class_of(bounds[row]) == c; });
    }
    for (const bool fills : {false, true}) {
        if (fills) {
            if (found.all > std::numeric_limits<index_t>::max()) {
                const auto all = passes.template reduce<std::int64_t>(
                    rows, [=] SPMVGPU_BODY(std::int64_t row) { return std::int64_t(offsets[row]); });
                check_entries(all);
            }
            pattern.nnz = passes.scan(offsets, rows);
            pattern.col_indices = passes.template make<index_t>(pattern.nnz);
        }
        index_t* const to = pattern.col_indices.data();
        if (found.rows[0] > 0) {
            passes.each(
                rows,
                [=] SPMVGPU_BODY(std::int64_t row) {
                    if (bounds[row] > kListed) return;
                    index_t list[kListed];
                    const index_t count = list_distinct(group_of(row), list);
                    if (!fills) {
                        offsets[row] = count;
                        return;
                    }
                    for (index_t i = 0; i < count; ++i) to[offsets[row] + i] = list[i];
                },
                work);
        }
        index_t limit = kListed;
        for (int c = 1; c < kClasses; ++c) {
            limit = c + 1 < kClasses ? limit * kClassFactor : std::numeric_limits<index_t>::max();
            if (found.rows[c] == 0) continue;
            const int slot_bits = slot_bits_for(std::max(kListed + 1, std::min(limit, found.longest)));
            const std::int64_t slots = std::int64_t(1) << slot_bits;
            const bool all_rows = found.rows[c] == rows;
            const index_t* const listed_rows = of_class[c].data();
            passes.each_in_step_with(
                found.rows[c], 2 * slots,
                [=] SPMVGPU_BODY(const auto& lanes, std::int64_t i, Word* memory) {
                    const index_t row = all_rows ? static_cast<index_t>(i) : listed_rows[i];
                    hash_distinct(lanes, group_of(row), memory, slot_bits);
                    auto* const list = reinterpret_cast<index_t*>(memory + slots);
                    const index_t count = lanes.add_up(
                        static_cast<index_t>(slots), [&](index_t s) { return index_t(memory[s] != kFreeWord); },
                        [&](index_t s, index_t before) {
                            if (memory[s] != kFreeWord) list[before] = static_cast<index_t>(memory[s]);
                        });
                    if (fills) {
                        lanes.sort(count, list, to + offsets[row]);
                    } else {
                        lanes.once([&] { offsets[row] = count; });
                    }
                },
                work + slots);
        }
    }
    return pattern;
}

}  // namespace spmvgpu::multigrid
