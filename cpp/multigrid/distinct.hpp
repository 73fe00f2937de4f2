// The distinct numbers in groups of numbers, ascending, which give the patterns of products of sparse matrices. As
// passes on any device; see core/passes/passes.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/csr_matrix.hpp"
#include "core/host_vector.hpp"
#include "core/interrupt.hpp"
#include "core/parallel.hpp"
#include "core/passes/host_passes.hpp"
#include "core/passes/passes.hpp"
#include "multigrid/distinct_by_lanes.hpp"
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
// a list. If these are more than kListed, some lanes take it together: few lanes sort up to kOfFew numbers, and
// otherwise a warp has a hash table. Most of the numbers of a long row are equal to others. A row with too many for the
// table of a warp is a block's, with a bit for each number; the device sorts the longest rows.
constexpr index_t kTried = 128;
enum Sharing : Mark { kOfThread, kOfFewLanes, kOfWarp };
constexpr index_t kFewKept = 64;
constexpr int kSlotBits = 10;
constexpr index_t kMostOfWarp = 384;
static_assert(kMostOfWarp + kReadAtOnce * 32 <= 1 << kSlotBits);  // see hash_distinct()
constexpr std::int64_t kMostTermsOfBlock = 1 << 22;

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

// The rows of a list, by whether a block takes each of them, or the device sorts them.
struct LongRows {
    Array<index_t> of_blocks, to_sort;
};

template <class Passes, class GroupOf>
LongRows divide_long_rows(Passes& passes, const Array<index_t>& rows, const GroupOf& group_of) {
    const auto count = static_cast<index_t>(rows.size());
    if (count == 0) return {};
    Array<Mark> marks_of_rows = passes.template scratch<Mark>(count + std::size_t(1));
    Mark *const are_too_long = marks_of_rows.data(), *const is_any = are_too_long + count;
    const index_t* const listed = rows.data();
    passes.fill(are_too_long, count + std::int64_t(1), Mark(0));
    passes.each_in_step(
        count,
        [=] SPMVGPU_BODY(const auto& lanes, std::int64_t i) {
            const auto group = group_of(listed[i]);
            std::int64_t own = 0;
            lanes.share(group.runs, [&](index_t r) { own += group.run(r).end - group.run(r).begin; });
            if (lanes.sum(own) <= static_cast<std::uint64_t>(kMostTermsOfBlock)) return;
            lanes.once([&] {
                set_mark(are_too_long + i);
                set_mark(is_any);
            });
        },
        kMostOfWarp);
    if (passes.read(is_any) == 0) return {rows, {}};
    const auto some = [&](bool too_long) {
        Array<index_t> found =
            select(passes, count, [=] SPMVGPU_BODY(std::int64_t i) { return (are_too_long[i] != 0) == too_long; });
        index_t* const to = found.data();
        passes.each(static_cast<std::int64_t>(found.size()),
                    [=] SPMVGPU_BODY(std::int64_t i) { to[i] = listed[to[i]]; });
        return found;
    };
    return {some(false), some(true)};
}

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
            // With many runs that takes a thread long, and the row is a warp's anyway.
            const bool is_short = group.runs <= kTried;
            const std::int64_t sum = is_short ? count_numbers(group) : cols;
            index_t list[kListed];
            const index_t count = is_short && sum <= kTried ? list_distinct(group, list) : kTooMany;
            RowBounds own;
            own.all = own.longest = static_cast<index_t>(sum < cols ? sum : cols);
            own.of_thread = count != kTooMany;
            own.of_few = count == kTooMany && is_short && sum <= kOfFew;
            own.of_warp = count == kTooMany && !own.of_few;
            sharing[row] = own.of_thread ? kOfThread : own.of_few ? kOfFewLanes : kOfWarp;
            offsets[row] = count;
            for (index_t i = 0; i < count; ++i) lists[std::int64_t(i) * rows + row] = list[i];
            return own;
        },
        work);
    // A kind of most rows is found among all rows.
    const std::int64_t few_listed = found.of_few <= rows / 2 ? found.of_few : 0;
    const std::int64_t warps_listed = found.of_warp < rows ? found.of_warp : 0;
    std::array<Array<index_t>, 2> lists_of_kinds;
    if (few_listed + warps_listed > 0) {
        lists_of_kinds = list_kinds<2>(passes, rows, {few_listed, warps_listed}, [=] SPMVGPU_BODY(std::int64_t row) {
            if (sharing[row] == kOfFewLanes && few_listed > 0) return 0;
            return sharing[row] == kOfWarp && warps_listed > 0 ? 1 : -1;
        });
    }
    constexpr std::int64_t kMostKept = std::int64_t(1) << 27, kSortWords = 2 * kOfFew;
    const std::int64_t few_looked_at = found.of_few == 0 ? 0 : few_listed > 0 ? few_listed : rows;
    const index_t* const few_rows = few_listed > 0 ? lists_of_kinds[0].data() : nullptr;
    const bool keeps_few = few_looked_at * kOfFew <= kMostKept;
    Array<index_t> kept_by_few = passes.template scratch<index_t>(keeps_few ? few_looked_at * kOfFew : 0);
    index_t* const few_kept = kept_by_few.data();
    passes.each_by_few_with(
        few_looked_at, kSortWords,
        [=] SPMVGPU_BODY(const auto& lanes, std::int64_t i, Word* memory) {
            const std::int64_t row = few_rows == nullptr ? i : few_rows[i];
            if (sharing[row] != kOfFewLanes) return;
            const index_t count =
                sort_distinct(lanes, group_of(row), memory, keeps_few ? few_kept + i * kOfFew : nullptr);
            lanes.once([&] { offsets[row] = count; });
        },
        work);
    const index_t* const rows_of_warps = warps_listed > 0 ? lists_of_kinds[1].data() : nullptr;
    const int slot_bits = std::min(kSlotBits, slot_bits_for(2 * std::int64_t(found.longest)));
    const index_t most = std::min(kMostOfWarp, found.longest);
    const std::int64_t slots = std::int64_t(1) << slot_bits;
    KeptNumbers kept;
    for (const index_t places : {kMostOfWarp, kFewKept}) {
        if (kept.places == 0 && found.of_warp * places <= kMostKept) kept.places = places;
    }
    Array<index_t> kept_lists = passes.template scratch<index_t>(found.of_warp * kept.places);
    kept.of_rows = kept_lists.data();
    passes.each_in_step_with(
        found.of_warp, slots + 1 + kept.places,
        [=] SPMVGPU_BODY(const auto& lanes, std::int64_t i, Word* memory) {
            const std::int64_t row = rows_of_warps == nullptr ? i : rows_of_warps[i];
            const index_t count = count_distinct(lanes, group_of(row), memory, slot_bits, most, kept, i);
            lanes.once([&] { offsets[row] = count; });
        },
        work + slots);

    constexpr index_t kMostTimes = 32;  // bits for fewer columns at a time take longer than to sort
    LongRows long_rows;
    if (found.longest > most) {
        const Array<index_t> too_long =
            select(passes, rows, [=] SPMVGPU_BODY(std::int64_t row) { return offsets[row] == kTooMany; });
        if (too_long.size() > 0 && cols / kBitsAtOnce < kMostTimes) {
            long_rows = divide_long_rows(passes, too_long, group_of);
        } else {
            long_rows.to_sort = too_long;
        }
    }
    const index_t* const of_blocks = long_rows.of_blocks.data();
    const auto block_rows = static_cast<std::int64_t>(long_rows.of_blocks.size());
    passes.each_by_block_with(
        block_rows, kBlockWords,
        [=] SPMVGPU_BODY(const auto& lanes, std::int64_t i, Word* memory) {
            const index_t row = of_blocks[i], count = list_by_bits(lanes, group_of(row), cols, memory, nullptr);
            lanes.share(1, [&](index_t) { offsets[row] = count; });
        },
        work + kBlockWords);
    std::vector<SortedRows> sorted;
    const index_t* const to_sort = long_rows.to_sort.data();
    for (const ListedStretch& stretch : stretches_to_sort(passes, long_rows.to_sort, group_of)) {
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
    passes.each_by_few_with(
        few_looked_at, kSortWords,
        [=] SPMVGPU_BODY(const auto& lanes, std::int64_t i, Word* memory) {
            const std::int64_t row = few_rows == nullptr ? i : few_rows[i];
            if (sharing[row] != kOfFewLanes) return;
            const index_t begin = offsets[row];
            if (!keeps_few) {
                sort_distinct(lanes, group_of(row), memory, to + begin);
                return;
            }
            lanes.share(offsets[row + 1] - begin, [&](index_t k) { to[begin + k] = few_kept[i * kOfFew + k]; });
        },
        work);
    passes.each_in_step_with(
        found.of_warp, slots + 1 + most,
        [=] SPMVGPU_BODY(const auto& lanes, std::int64_t i, Word* memory) {
            const std::int64_t row = rows_of_warps == nullptr ? i : rows_of_warps[i];
            const index_t count = offsets[row + 1] - offsets[row];
            if (count > most) return;
            write_counted(lanes, group_of(row), memory, slot_bits, count, kept, i, to + offsets[row]);
        },
        work + slots);
    passes.each_by_block_with(
        block_rows, kBlockWords,
        [=] SPMVGPU_BODY(const auto& lanes, std::int64_t i, Word* memory) {
            const index_t row = of_blocks[i];
            list_by_bits(lanes, group_of(row), cols, memory, to + offsets[row]);
        },
        work + kBlockWords);
    for (const SortedRows& part : sorted) {
        const index_t *const own = to_sort + part.stretch.first, *const firsts = part.firsts.data(),
                             *const numbers = part.numbers.data();
        passes.each_entry(part.stretch.count, firsts, static_cast<index_t>(part.numbers.size()),
                          [=] SPMVGPU_BODY(index_t i, index_t u) { to[offsets[own[i]] + u - firsts[i]] = numbers[u]; });
    }
    return pattern;
}

}  // namespace spmvgpu::multigrid
