// The distinct numbers in groups of numbers, ascending, which give the patterns of products of sparse matrices. As
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
#include "multigrid/sorted_terms.hpp"

namespace spmvgpu::multigrid {

// The positions of the entries of a matrix.
struct PatternArrays {
    index_t rows = 0, cols = 0, nnz = 0;
    Array<index_t> row_offsets, col_indices;

    CsrPattern view() const { return {rows, cols, nnz, row_offsets.data(), col_indices.data()}; }
    std::size_t bytes() const { return row_offsets.bytes() + col_indices.bytes(); }
};

// One thread takes a row whose group has up to kTried numbers, with repetitions, and keeps the distinct ones sorted in
// a list. If these are more than kListed, some lanes take it together, with a hash table: few lanes with near memory
// for up to kOfFew numbers, and otherwise a warp, first with a small table, because most of the numbers of a long row
// are equal to others, and with larger ones for rows that exceed it.
constexpr index_t kListed = 16, kTried = 128, kOfFew = 64;
enum Sharing : Mark { kOfThread, kOfFewLanes, kOfWarp };
constexpr index_t kTooMany = -1;  // in place of a count
constexpr index_t kFewKept = 64;
constexpr int kFewSlotBits = 7, kSlotBits[] = {9, 12};
constexpr index_t most_in_table(int slot_bits) { return static_cast<index_t>(3) << (slot_bits - 2); }

// Number of rows of each kind, and bounds of their numbers.
struct RowBounds {
    std::int64_t of_thread = 0, of_few = 0, of_warp = 0;
    std::int64_t all = 0;
    index_t longest = 0;

    constexpr RowBounds& operator+=(const RowBounds& other) {
        of_thread += other.of_thread;
        of_few += other.of_few;
        of_warp += other.of_warp;
        all += other.all;
        if (other.longest > longest) longest = other.longest;
        return *this;
    }
};

// Inserts the numbers of a group into a sorted list of kListed places, and returns the number of distinct ones.
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
            if (count == kListed) return kTooMany;
            for (index_t other = count; other > at; --other) list[other] = list[other - 1];
            list[at] = number;
            ++count;
        }
    }
    return count;
}

constexpr Word kFreeWord = std::numeric_limits<Word>::max();

// Puts a number into a free slot, as several lanes may do at once; returns the previous contents.
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

// Collects the distinct numbers of a group in a hash table, see first_slot(), and calls added(number) for each new one.
// Lanes share a run if there are few; each reads several numbers before it looks for the first. Lanes stop where
// is_over() holds, which they ask before they read, and where the table is full.
template <class Lanes, class Group, class Added, class IsOver>
SPMVGPU_IN_BODY void hash_distinct(const Lanes& lanes, const Group& group, Word* slots, int slot_bits,
                                   const Added& added, const IsOver& is_over) {
    constexpr index_t kAtOnce = 4;
    const Word mask = (Word(1) << slot_bits) - 1;
    index_t sharing = 1;
    while (sharing < Lanes::kCount && sharing * group.runs < Lanes::kCount) sharing *= 2;
    lanes.share(static_cast<index_t>(mask) + 1, [&](index_t i) { slots[i] = kFreeWord; });
    bool fits = true;
    lanes.share(sharing * group.runs, [&](index_t i) {
        if (!fits || is_over()) return;
        const Run run = group.run(i / sharing);
        for (std::int64_t first = run.begin + std::int64_t(i % sharing) * kAtOnce;
             first < run.end && fits && !is_over(); first += sharing * kAtOnce) {
            Word numbers[kAtOnce];
            for (index_t j = 0; j < kAtOnce; ++j) {
                numbers[j] = first + j < run.end ? static_cast<Word>(group.number(run, static_cast<index_t>(first + j)))
                                                 : kFreeWord;
            }
            for (index_t j = 0; j < kAtOnce; ++j) {
                if (numbers[j] == kFreeWord || !fits) continue;
                Word at = first_slot(numbers[j], slot_bits), tries = 0;
                Word seen = claim(slots + at, numbers[j]);
                while (seen != kFreeWord && seen != numbers[j] && tries <= mask) {
                    at = (at + 1) & mask;
                    seen = claim(slots + at, numbers[j]);
                    ++tries;
                }
                if (seen == kFreeWord) added(static_cast<index_t>(numbers[j]));
                fits = seen == kFreeWord || seen == numbers[j];
            }
        }
    });
}

// Numbers of a row that are kept where they are counted, unless they are more.
struct KeptNumbers {
    index_t* of_rows = nullptr;  // `places` of each row; null: nothing is kept
    index_t places = 0;

    SPMVGPU_IN_BODY index_t* of(std::int64_t row) const { return of_rows + row * places; }
};

// The number of distinct numbers of a group, or kTooMany if it exceeds `most`, which is less than the slots; and the
// numbers, ascending. The table is at the beginning of the memory. A word and a list follow. The first function lists
// the numbers that are kept, in any order, the second one all `count` numbers.
template <class Lanes, class Group>
SPMVGPU_IN_BODY index_t count_distinct(const Lanes& lanes, const Group& group, Word* memory, int slot_bits,
                                       index_t most, const KeptNumbers& kept = {}, std::int64_t row = 0) {
    Word* const size = memory + (std::int64_t(1) << slot_bits);
    auto* const list = reinterpret_cast<index_t*>(size + 1);
    lanes.once([&] { *size = 0; });
    hash_distinct(
        lanes, group, memory, slot_bits,
        [&](index_t number) {
            const index_t place = take_place(size);
            if (place < kept.places) list[place] = number;
        },
        // A full table is searched as a whole for each further number.
        [&] { return read_shared(size) > static_cast<Word>(most); });
    const auto count = static_cast<index_t>(*size);
    if (count > most) return kTooMany;
    if (count <= kept.places) lanes.share(count, [&](index_t i) { kept.of(row)[i] = list[i]; });
    return count;
}
template <class Lanes, class Group>
SPMVGPU_IN_BODY void write_distinct(const Lanes& lanes, const Group& group, Word* memory, int slot_bits, index_t count,
                                    index_t* to) {
    Word* const size = memory + (std::int64_t(1) << slot_bits);
    auto* const list = reinterpret_cast<index_t*>(size + 1);
    lanes.once([&] { *size = 0; });
    hash_distinct(
        lanes, group, memory, slot_bits, [&](index_t number) { list[take_place(size)] = number; },
        [] { return false; });
    lanes.sort(count, list, reinterpret_cast<index_t*>(memory), to);
}

// distinct_pattern(passes, rows, cols, group_of, work): the pattern whose row i has the distinct numbers of the group
// group_of(i), which are below `cols`. Groups are as for passes.distinct(), without a tally.

// The distinct numbers of one group at a time, on the CPU: a hash table whose slots are the numbers of the present
// round.
class DistinctNumbers {
public:
    // Appends the distinct numbers of a group of at most `bound` to a list, ascending.
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

// On the CPU each piece of the rows makes lists, which are then concatenated.
template <class GroupOf>
PatternArrays distinct_pattern(HostPasses& passes, index_t rows, index_t cols, const GroupOf& group_of,
                               std::int64_t work) {
    PatternArrays pattern{rows, cols, 0, Array<index_t>(rows + std::size_t(1)), {}};
    index_t* const offsets = pattern.row_offsets.data();
    const std::int64_t pieces = std::max<std::int64_t>(1, std::min<std::int64_t>(rows, piece_count(work * rows)));
    std::vector<HostVector<index_t>> lists(pieces);
    for_each_piece(pieces, [&](std::int64_t p) {
        DistinctNumbers numbers;
        InterruptTimer timer;
        for (std::int64_t row = part_begin(rows, pieces, p); row < part_begin(rows, pieces, p + 1); ++row) {
            const auto group = group_of(row);
            const std::int64_t sum = count_numbers(group);
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

// The distinct numbers of rows that were sorted: row i of the list has them from firsts[i] on.
struct SortedRows {
    Array<index_t> firsts, numbers;
    ListedStretch stretch;
};

// Rows of warps that were tried with tables of this size: the rows of a list, or all if that is null.
struct Tables {
    int slot_bits;
    index_t most;  // numbers that fit
    std::int64_t count;
    Array<index_t> rows;
    Array<index_t> kept_lists;
    KeptNumbers kept;
};

template <class Passes, class GroupOf>
PatternArrays distinct_pattern(Passes& passes, index_t rows, index_t cols, const GroupOf& group_of, std::int64_t work) {
    Array<Mark> sharing_of_rows = passes.template scratch<Mark>(rows);
    Array<index_t> lists_of_rows = passes.template scratch<index_t>(std::size_t(rows) * kListed);
    Mark* const sharing = sharing_of_rows.data();
    index_t* const lists = lists_of_rows.data();  // place i of all rows before place i + 1
    PatternArrays pattern{rows, cols, 0, passes.template make<index_t>(rows + std::size_t(1)), {}};
    index_t* const offsets = pattern.row_offsets.data();
    const auto found = passes.template reduce<RowBounds>(
        rows,
        [=] SPMVGPU_BODY(std::int64_t row) {
            const auto group = group_of(row);
            const std::int64_t sum = count_numbers(group);
            index_t list[kListed];
            const index_t count = sum <= kTried ? list_distinct(group, list) : kTooMany;
            RowBounds own;
            own.all = own.longest = static_cast<index_t>(sum < cols ? sum : cols);
            own.of_thread = count != kTooMany;
            own.of_few = count == kTooMany && sum <= kOfFew;
            own.of_warp = count == kTooMany && sum > kOfFew;
            sharing[row] = own.of_thread ? kOfThread : own.of_few ? kOfFewLanes : kOfWarp;
            offsets[row] = count;
            for (index_t i = 0; i < count; ++i) lists[std::int64_t(i) * rows + row] = list[i];
            return own;
        },
        work);
    constexpr std::int64_t kFewSlots = std::int64_t(1) << kFewSlotBits;
    if (found.of_few > 0) {
        passes.each_by_few_with(
            rows, kFewSlots + 1,
            [=] SPMVGPU_BODY(const auto& lanes, std::int64_t row, Word* memory) {
                if (sharing[row] != kOfFewLanes) return;
                const index_t count = count_distinct(lanes, group_of(row), memory, kFewSlotBits, kOfFew);
                lanes.once([&] { offsets[row] = count; });
            },
            work + kFewSlots);
    }
    std::vector<Tables> tables;
    const int bits_for_all = slot_bits_for(found.longest);
    const auto fits_all = [&] { return !tables.empty() && tables.back().slot_bits == bits_for_all; };
    for (const int bits : kSlotBits) {
        if (found.of_warp == 0 || fits_all()) break;
        const bool is_first = tables.empty();
        const int slot_bits = std::min(bits, bits_for_all);
        Array<index_t> tried;
        if (!is_first || found.of_warp < rows) {
            tried = select(passes, rows, [=] SPMVGPU_BODY(std::int64_t row) {
                return is_first ? sharing[row] == kOfWarp : offsets[row] == kTooMany;
            });
            if (tried.size() == 0) break;
        }
        const auto tries = tried.data() == nullptr ? std::int64_t(rows) : static_cast<std::int64_t>(tried.size());
        const index_t most = slot_bits == bits_for_all ? found.longest : most_in_table(slot_bits);
        KeptNumbers kept;
        for (const index_t places : {most_in_table(kSlotBits[0]), kFewKept}) {
            constexpr std::int64_t kMostKept = std::int64_t(1) << 27;
            if (is_first && kept.places == 0 && tries * places <= kMostKept) kept.places = places;
        }
        Array<index_t> kept_lists = passes.template scratch<index_t>(tries * kept.places);
        kept.of_rows = kept_lists.data();
        const index_t* const listed = tried.data();
        passes.each_in_step_with(
            tries, (std::int64_t(1) << slot_bits) + 1 + kept.places,
            [=] SPMVGPU_BODY(const auto& lanes, std::int64_t i, Word* memory) {
                const index_t row = listed == nullptr ? static_cast<index_t>(i) : listed[i];
                const index_t count = count_distinct(lanes, group_of(row), memory, slot_bits, most, kept, i);
                lanes.once([&] { offsets[row] = count; });
            },
            work + (std::int64_t(1) << slot_bits));
        tables.push_back({slot_bits, most, tries, std::move(tried), std::move(kept_lists), kept});
    }

    Array<index_t> rows_to_sort;  // with too many numbers for these
    if (!tables.empty() && !fits_all()) {
        rows_to_sort = select(passes, rows, [=] SPMVGPU_BODY(std::int64_t row) { return offsets[row] == kTooMany; });
    }
    std::vector<SortedRows> sorted;
    const index_t* const to_sort = rows_to_sort.data();
    for (const ListedStretch& stretch : stretches_to_sort(passes, rows_to_sort, group_of)) {
        const index_t* const own = to_sort + stretch.first;
        const SortedTerms terms = sort_terms(passes, own, stretch.count, cols, group_of);
        const auto distinct = static_cast<index_t>(terms.starts.size()) - 1;
        sorted.push_back({terms.first_starts, passes.template scratch<index_t>(distinct), stretch});
        const index_t *const firsts = terms.first_starts.data(), *const starts = terms.starts.data();
        const index_t *const order = terms.order.data(), *const numbers = terms.numbers.data();
        index_t* const kept = sorted.back().numbers.data();
        passes.each(stretch.count, [=] SPMVGPU_BODY(std::int64_t i) { offsets[own[i]] = firsts[i + 1] - firsts[i]; });
        passes.each(distinct, [=] SPMVGPU_BODY(std::int64_t u) { kept[u] = numbers[order[starts[u]]]; });
    }

    if (found.all > std::numeric_limits<index_t>::max()) {
        const auto all = passes.template reduce<std::int64_t>(
            rows, [=] SPMVGPU_BODY(std::int64_t row) { return std::int64_t(offsets[row]); });
        check_entries(all);
    }
    pattern.nnz = passes.scan(offsets, rows);
    pattern.col_indices = passes.template make<index_t>(pattern.nnz);
    index_t* const to = pattern.col_indices.data();
    if (found.of_thread > 0) {
        passes.each(rows, [=] SPMVGPU_BODY(std::int64_t row) {
            if (sharing[row] != kOfThread) return;
            const index_t begin = offsets[row], count = offsets[row + 1] - begin;
            for (index_t i = 0; i < count; ++i) to[begin + i] = lists[std::int64_t(i) * rows + row];
        });
    }
    if (found.of_few > 0) {
        passes.each_by_few_with(
            rows, kFewSlots + 1 + kOfFew,
            [=] SPMVGPU_BODY(const auto& lanes, std::int64_t row, Word* memory) {
                if (sharing[row] != kOfFewLanes) return;
                write_distinct(lanes, group_of(row), memory, kFewSlotBits, offsets[row + 1] - offsets[row],
                               to + offsets[row]);
            },
            work + kFewSlots);
    }
    index_t fitted = 0;  // in the smaller tables
    for (const Tables& table : tables) {
        const index_t* const listed = table.rows.data();
        const KeptNumbers kept = table.kept;
        const index_t least = fitted, most = table.most;
        const int slot_bits = table.slot_bits;
        const std::int64_t slots = std::int64_t(1) << slot_bits;
        passes.each_in_step_with(
            table.count, slots + 1 + most,
            [=] SPMVGPU_BODY(const auto& lanes, std::int64_t i, Word* memory) {
                const index_t row = listed == nullptr ? static_cast<index_t>(i) : listed[i];
                const index_t count = offsets[row + 1] - offsets[row];
                if (count <= least || count > most) return;
                if (count > kept.places) {
                    return write_distinct(lanes, group_of(row), memory, slot_bits, count, to + offsets[row]);
                }
                auto* const list = reinterpret_cast<index_t*>(memory);
                lanes.share(count, [&](index_t k) { list[k] = kept.of(i)[k]; });
                lanes.sort(count, list, list + count, to + offsets[row]);
            },
            work + slots);
        fitted = most;
    }
    for (const SortedRows& part : sorted) {
        const index_t *const own = to_sort + part.stretch.first, *const firsts = part.firsts.data(),
                             *const numbers = part.numbers.data();
        passes.each_entry(part.stretch.count, firsts, static_cast<index_t>(part.numbers.size()),
                          [=] SPMVGPU_BODY(index_t i, index_t u) { to[offsets[own[i]] + u - firsts[i]] = numbers[u]; });
    }
    return pattern;
}

}  // namespace spmvgpu::multigrid
