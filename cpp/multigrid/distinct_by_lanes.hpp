// The distinct numbers of a group, counted and listed by one thread, by some lanes of a warp or by the threads of a
// block.
#pragma once

#include <cstdint>
#include <limits>

#include "core/passes/lanes.hpp"
#include "core/passes/passes.hpp"

namespace spmvgpu::multigrid {

constexpr index_t kListed = 16;   // places of a thread's list
constexpr index_t kOfFew = 64;    // numbers that few lanes sort
constexpr index_t kTooMany = -1;  // in place of a count
constexpr index_t kBitsAtOnce = kBlockWords * kWordBits;

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

// The number of distinct numbers of a group of at most kOfFew, in memory for twice as many; and the numbers, ascending,
// unless `to` is null.
template <class Lanes, class Group>
SPMVGPU_IN_BODY index_t sort_distinct(const Lanes& lanes, const Group& group, Word* memory, index_t* to) {
    auto *const list = reinterpret_cast<index_t*>(memory), *const sorted = list + kOfFew;
    const index_t count = lanes.list_runs(
        group.runs, [&](index_t i) -> Run { return group.run(i); },
        [&](index_t i, index_t k) { return group.number(group.run(i), k); }, list);
    lanes.sort(count, list, list, sorted);
    const auto is_new = [&](index_t i) { return i == 0 || sorted[i] != sorted[i - 1]; };
    return lanes.add_up(
        count, [&](index_t i) { return index_t(is_new(i)); },
        [&](index_t i, index_t before) {
            if (to != nullptr && is_new(i)) to[before] = sorted[i];
        });
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
// It ends where is_over() holds. The table has free slots at any time: lanes read kReadAtOnce numbers each before they
// ask again.
template <class Lanes, class Group, class Added, class IsOver>
SPMVGPU_IN_BODY void hash_distinct(const Lanes& lanes, const Group& group, Word* slots, int slot_bits,
                                   const Added& added, const IsOver& is_over) {
    const Word mask = (Word(1) << slot_bits) - 1;
    lanes.share(static_cast<index_t>(mask) + 1, [&](index_t i) { slots[i] = kFreeWord; });
    lanes.each_of_runs_until(
        group.runs, [&](index_t i) -> Run { return group.run(i); }, is_over,
        [&](index_t i, index_t k) { return static_cast<Word>(group.number(group.run(i), k)); },
        [&](Word number) {
            Word at = first_slot(number, slot_bits), seen = claim(slots + at, number);
            while (seen != kFreeWord && seen != number) {
                at = (at + 1) & mask;
                seen = claim(slots + at, number);
            }
            if (seen == kFreeWord) added(static_cast<index_t>(number));
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
                                       index_t most, const KeptNumbers& kept, std::int64_t row) {
    Word* const size = memory + (std::int64_t(1) << slot_bits);
    auto* const list = reinterpret_cast<index_t*>(size + 1);
    lanes.once([&] { *size = 0; });
    hash_distinct(
        lanes, group, memory, slot_bits,
        [&](index_t number) {
            const index_t place = take_place(size);
            if (place < kept.places) list[place] = number;
        },
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
// Writes all `count` numbers of a row, which may be kept.
template <class Lanes, class Group>
SPMVGPU_IN_BODY void write_counted(const Lanes& lanes, const Group& group, Word* memory, int slot_bits, index_t count,
                                   const KeptNumbers& kept, std::int64_t row, index_t* to) {
    if (count > kept.places) return write_distinct(lanes, group, memory, slot_bits, count, to);
    auto* const list = reinterpret_cast<index_t*>(memory);
    lanes.share(count, [&](index_t i) { list[i] = kept.of(row)[i]; });
    lanes.sort(count, list, list + count, to);
}

// The number of distinct numbers below `cols` of a group, in memory for kBlockWords, by the lanes of a block; and the
// numbers, ascending, unless `to` is null. Numbers have a bit each, for as many of them at a time as there are.
template <class Lanes, class Group>
SPMVGPU_IN_BODY index_t list_by_bits(const Lanes& lanes, const Group& group, index_t cols, Word* memory, index_t* to) {
    index_t found = 0;
    for (index_t first = 0; first < cols; first += kBitsAtOnce) {
        const index_t bits = cols - first < kBitsAtOnce ? cols - first : kBitsAtOnce;
        const auto words = static_cast<index_t>(words_for(bits));
        lanes.share(words, [&](index_t w) { memory[w] = 0; });
        lanes.each_of_runs(
            group.runs, [&](index_t i) -> Run { return group.run(i); },
            [&](index_t i, index_t k) { return group.number(group.run(i), k) - first; },
            [&](index_t bit) {
                if (0 <= bit && bit < bits) add_to_set(memory, bit);
            });
        found += lanes.add_up(
            words, [&](index_t w) { return index_t(count_bits(memory[w])); },
            [&](index_t w, index_t before) {
                if (to == nullptr) return;
                index_t* place = to + found + before;
                for (Word left = memory[w]; left != 0; left &= left - 1) {
                    *place++ = first + w * static_cast<index_t>(kWordBits) + lowest_bit(left);
                }
            });
    }
    return found;
}

}  // namespace spmvgpu::multigrid
