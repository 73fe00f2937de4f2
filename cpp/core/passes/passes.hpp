// Passes over arrays: the vocabulary of the builders of formats. A builder is a template over a backend of passes, so
// it is written once and compiled twice: with HostPasses (host_passes.hpp) for the cores of the CPU, and with
// CudaPasses (gpu/cuda/passes.cuh) for a GPU. Both give the same arrays to the bit, for only integers are ever added
// up, apart from the sums of DiagonalFacts, which go into no array.
//
// A backend `passes` offers a builder:
//
// clang-format off
//
//     passes.make<T>(n)                     an array of n on the device, which lasts: a part of the result
//     passes.scratch<T>(n)                  an array that only the builder needs; other passes return such arrays, too
//     passes.keep(array)                    a copy of the numbers in an array that lasts
//     passes.fill(to, n, value)             to[i] = value
//     passes.each(n, body, work)            body(i) for every i below n
//     passes.each_in_step(n, body, work)    body(lanes, i) for every i below n, in which 32 lanes work in step; the type
//                                           of the lanes, see lanes.hpp, is Passes::Lanes
//     passes.each_in_step_with(n, words, body, work)
//                                           body(lanes, i, memory), with `words` words of memory for each i, which is
//                                           near if they are no more than kFastWords
//     passes.each_by_few_with(n, words, body, work)
//                                           the same with few lanes, 8 on a GPU, and memory that is near: for short
//                                           rows, with at most kFewWords
//     passes.each_by_block_with(n, words, body, work)
//                                           the same with the threads of a block (gpu/cuda/block_lanes.cuh): for long
//                                           rows, with at most kBlockWords
//     passes.each_entry(rows, row_offsets, nnz, body)
//                                           body(row, k) for every entry k, which lies in that row
//     passes.reduce<Sum>(n, body, work)     the sum, by +=, of body(i), which gives a Sum
//     passes.reduce_rows<Sum, V>(rows, row_offsets, nnz, term, body, work)
//                                           that of body(row, sum), where the sum is of the V term(k) of the row's
//                                           entries, one after the other
//     passes.add(to, n, body, work)         adds the sum of body(i), an std::int64_t, to the one at an address on the
//                                           device, without waiting for it
//     passes.add_rows<V>(to, rows, row_offsets, nnz, term, body, work)
//                                           adds the sums over rows, as add() does
//     passes.scan(counts, n)                counts[i] becomes the sum of the counts before i, for i up to n itself;
//                                           returns that of all. `counts` has n + 1 places
//     passes.start_scan(counts, n)          the same without waiting for it, which returns nothing
//     passes.order_by_key(n, window, largest, key)
//                                           0 to n - 1, by ascending key(i) within windows of `window` neighbours; equal
//                                           ones keep their order. key(i) is in 0..largest
//     passes.distinct<Group>(n, most, body, work)
//                                           counts the different numbers in the group body(g), for every g below n; what
//                                           a Group is stands at Tally
//     passes.chain(n, next)                 0, next(0), next(next(0)), ... as far as they lie below n; next(i) > i
//     passes.read(from)                     the value at an address on the device
//     passes.read_all(array)                all values of an array, in host memory
//     passes.write_all(array, values)       sets all values of an array from host memory
//     passes.finish()                       waits for all of them, and frees the memory of deleted scratch arrays
//
// clang-format on
//
// The functions below build on these. Bodies are lambdas, [=] SPMVGPU_BODY(...) {...}, that capture numbers and
// pointers by value, and call nothing but constexpr functions and the functions of this file. `work` is the number of
// nanoseconds that a core takes for one i; a GPU ignores it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <numeric>
#include <type_traits>

#include "core/array.hpp"
#include "core/passes/bits.hpp"
#include "core/types.hpp"

#ifdef __CUDACC__
#define SPMVGPU_BODY __device__
#else
#define SPMVGPU_BODY
#endif

namespace spmvgpu {

// A sum that is a maximum. It is 0 for no numbers.
template <class T>
struct Largest {
    T value = 0;

    constexpr Largest& operator+=(const Largest& other) {
        if (other.value > value) value = other.value;
        return *this;
    }
};

// The first place in [begin, end) of an ascending array with a number above `value`, and with one that is not below.
template <class T>
constexpr std::int64_t first_above(const T* array, std::int64_t begin, std::int64_t end, std::int64_t value) {
    while (begin < end) {
        const std::int64_t middle = begin + (end - begin) / 2;
        if (array[middle] <= value) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return begin;
}
template <class T, class Value>
constexpr std::int64_t first_not_below(const T* array, std::int64_t begin, std::int64_t end, Value value) {
    while (begin < end) {
        const std::int64_t middle = begin + (end - begin) / 2;
        if (array[middle] < value) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return begin;
}

// The row of an entry is the last one that begins at or before it.
constexpr index_t row_of_entry(const index_t* row_offsets, index_t rows, index_t entry) {
    return static_cast<index_t>(first_above(row_offsets, 0, std::int64_t(rows) + 1, entry)) - 1;
}

// Place i of a sample of `count` out of `all`: in stretch i, where it keeps no step with rows or grids.
constexpr std::int64_t sample_place(std::int64_t all, std::int64_t count, std::int64_t i) {
    const std::int64_t each = all / count, more = all % count;
    const std::int64_t begin = each * i + more * i / count, end = each * (i + 1) + more * (i + 1) / count;
    const std::uint64_t random = (static_cast<std::uint64_t>(i) * 0x9e3779b97f4a7c15u) >> 33;
    return begin + static_cast<std::int64_t>(random % static_cast<std::uint64_t>(end - begin));
}

template <class T>
SPMVGPU_IN_BODY T read_shared(const T* from) {
#ifdef __CUDA_ARCH__
    return *static_cast<const volatile T*>(from);
#else
    return std::atomic_ref<T>(*const_cast<T*>(from)).load(std::memory_order_relaxed);
#endif
}

// Marks of single places, which several calls of a body may set and read at once.
using Mark = std::uint8_t;

SPMVGPU_IN_BODY void set_mark(Mark* mark) {
#ifdef __CUDA_ARCH__
    *static_cast<volatile Mark*>(mark) = 1;
#else
    std::atomic_ref<Mark>(*mark).store(1, std::memory_order_relaxed);
#endif
}

SPMVGPU_IN_BODY bool is_marked(const Mark* mark) { return read_shared(mark) != 0; }

// Sets of numbers, a bit each, to which several calls of a body may add at once.
SPMVGPU_IN_BODY void add_to_set(Word* words, std::int64_t number) {
    Word* const word = words + number / kWordBits;
    const Word bit = Word(1) << number % kWordBits;
    // The word is read first: nearly always the number is there already, and reads alone do not slow other threads
    // down. On a GPU the first read may find an old word in the L1, which lacks numbers that are there.
#ifdef __CUDA_ARCH__
    if ((*word & bit) == 0 && (*static_cast<volatile Word*>(word) & bit) == 0) atomicOr(word, bit);
#else
    const std::atomic_ref<Word> shared(*word);
    if ((shared.load(std::memory_order_relaxed) & bit) == 0) shared.fetch_or(bit, std::memory_order_relaxed);
#endif
}

// Words of memory for lanes in step, see each_in_step_with(): as many as the shared memory of a GPU's block holds.
constexpr std::int64_t kFastWords = 24 << 10;

// Words of memory for few lanes, see each_by_few_with().
constexpr std::int64_t kFewWords = 384;

// Words of memory for a block, see each_by_block_with(): few enough that a multiprocessor has several blocks.
constexpr std::int64_t kBlockWords = 11 << 10;

// Adds one, as several calls of a body may do at once.
SPMVGPU_IN_BODY void count_one(index_t* count) {
#ifdef __CUDA_ARCH__
    atomicAdd(count, 1);
#else
    std::atomic_ref<index_t>(*count).fetch_add(1, std::memory_order_relaxed);
#endif
}

// Takes the next free place of a list, as several lanes may do at once; `size` counts the occupied ones.
SPMVGPU_IN_BODY Word take_place(Word* size) {
#ifdef __CUDA_ARCH__
    return atomicAdd(size, 1u);
#else
    return (*size)++;
#endif
}

// Makes a number the least of itself and another, as several calls of a body may do at once.
template <class T>
SPMVGPU_IN_BODY void lower(T* least, T other) {
    T known = read_shared(least);  // this comes first, as for sets
#ifdef __CUDA_ARCH__
    using Atomic = std::conditional_t<sizeof(T) == sizeof(index_t), index_t, unsigned long long>;
    if (known > other) atomicMin(reinterpret_cast<Atomic*>(least), static_cast<Atomic>(other));
#else
    const std::atomic_ref<T> shared(*least);
    while (known > other && !shared.compare_exchange_weak(known, other, std::memory_order_relaxed)) {
    }
#endif
}

// The result of passes.distinct(): the number of entries, and the number of different ones, counted once for every
// group. A group is a copyable struct whose numbers come from runs of entries, so that several threads can share both
// the runs and a long run:
//     Tally* tally                  receives the counts; groups may share one
//     index_t runs                  how many runs there are, none if it is not above zero
//     Run run(index_t i)            the entries of run i; of a type with that as its base, if numbers take more
//     number(Run run, index_t k)    the number of an entry of the run: an index_t or a std::int64_t, which is not
//                                   negative and below 2^kNumberBits
// No group has more than `most` entries. For each of n * most a GPU takes up to 10 bytes of scratch memory if its
// number is an index_t, and 20 otherwise; none for groups that fit into the memory of a block.
struct Tally {
    std::int64_t different = 0, all = 0;
};
struct Run {
    index_t begin, end;
};
constexpr int kNumberBits = 40;

SPMVGPU_IN_BODY void add_to_tally(Tally* tally, const Tally& found) {
    const auto add = [](std::int64_t* to, std::int64_t count) {
#ifdef __CUDA_ARCH__
        atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(count));
#else
        std::atomic_ref<std::int64_t>(*to).fetch_add(count, std::memory_order_relaxed);
#endif
    };
    add(&tally->different, found.different);
    add(&tally->all, found.all);
}

// The hash sets of passes.distinct(): the number of slots as a power of two, at least a fifth of them free, and the
// slot where to look for a number first (Knuth's multiplicative hashing).
constexpr int slot_bits_for(std::int64_t most) {
    int bits = 5;
    while (std::int64_t(1) << bits < most + most / 4) ++bits;
    return bits;
}
constexpr std::uint32_t first_slot(std::uint64_t number, int slot_bits) {
    return static_cast<std::uint32_t>(number * 0x9e3779b97f4a7c15u >> (64 - slot_bits));
}

// The largest of the numbers value(i), none of which is negative.
template <class T, class Passes, class Value>
T largest(Passes& passes, std::int64_t n, Value value) {
    const auto found = passes.template reduce<Largest<T>>(
        n, [=] SPMVGPU_BODY(std::int64_t i) { return Largest<T>{static_cast<T>(value(i))}; });
    return found.value;
}

// Returns true if holds(row, k) is true for any entry; see passes.each_entry().
template <class Passes, class Holds>
bool any_entry(Passes& passes, index_t rows, const index_t* row_offsets, index_t nnz, Holds holds) {
    Array<Mark> found = passes.template scratch<Mark>(1);
    Mark* const is_found = found.data();
    passes.fill(is_found, 1, Mark(0));
    passes.each_entry(rows, row_offsets, nnz, [=] SPMVGPU_BODY(index_t row, index_t k) {
        if (holds(row, k)) set_mark(is_found);
    });
    return passes.read(is_found) != 0;
}

// The numbers below n for which holds(i) is true, ascending. Needs 4 bytes of scratch memory for each of the n.
template <class Passes, class Holds>
Array<index_t> select(Passes& passes, index_t n, Holds holds) {
    Array<index_t> places = passes.template scratch<index_t>(std::size_t(n) + 1);
    index_t* const place = places.data();
    passes.each(n, [=] SPMVGPU_BODY(std::int64_t i) { place[i] = holds(i) ? 1 : 0; });
    Array<index_t> found = passes.template scratch<index_t>(passes.scan(place, n));
    index_t* const to = found.data();
    passes.each(n, [=] SPMVGPU_BODY(std::int64_t i) {
        if (place[i] != place[i + 1]) to[place[i]] = static_cast<index_t>(i);
    });
    return found;
}

// The numbers below n of each kind, ascending; kind_of(i) is a kind, or none. `counts` says how many a kind has, so
// that nothing is waited for. Needs 4 bytes of scratch memory for each of the n and each kind.
template <std::size_t kKinds, class Passes, class KindOf>
std::array<Array<index_t>, kKinds> list_kinds(Passes& passes, index_t n, const std::array<std::int64_t, kKinds>& counts,
                                              KindOf kind_of) {
    constexpr auto kCount = static_cast<int>(kKinds);
    Array<index_t> places = passes.template scratch<index_t>(kKinds * std::size_t(n) + 1);
    index_t* const place = places.data();
    passes.each(n, [=] SPMVGPU_BODY(std::int64_t i) {
        const int own = kind_of(i);
        for (int kind = 0; kind < kCount; ++kind) place[std::int64_t(kind) * n + i] = kind == own ? 1 : 0;
    });
    passes.start_scan(place, std::int64_t(kCount) * n);
    Array<index_t> found = passes.template scratch<index_t>(std::accumulate(counts.begin(), counts.end(), 0LL));
    index_t* to = found.data();
    passes.each(n, [=] SPMVGPU_BODY(std::int64_t i) {
        const int own = kind_of(i);
        if (0 <= own && own < kCount) to[place[std::int64_t(own) * n + i]] = static_cast<index_t>(i);
    });
    std::array<Array<index_t>, kKinds> lists;
    for (int kind = 0; kind < kCount; to += counts[kind], ++kind) {
        lists[kind] = Array<index_t>::share({found.memory(), to}, counts[kind], found.device());
    }
    return lists;
}

// The numbers in a set of numbers below n, each less by `first`, ascending.
template <class Passes>
Array<index_t> list_set(Passes& passes, const Word* words, std::int64_t n, std::int64_t first) {
    const auto count = static_cast<index_t>(words_for(n));
    Array<index_t> places = passes.template scratch<index_t>(std::size_t(count) + 1);
    index_t* const place = places.data();
    passes.each(count, [=] SPMVGPU_BODY(std::int64_t w) { place[w] = count_bits(words[w]); });
    Array<index_t> found = passes.template make<index_t>(passes.scan(place, count));
    index_t* const to = found.data();
    passes.each(count, [=] SPMVGPU_BODY(std::int64_t w) {
        index_t at = place[w];
        for (int bit = 0; bit < kWordBits; ++bit) {
            if ((words[w] >> bit & 1) != 0) to[at++] = static_cast<index_t>(w * kWordBits + bit - first);
        }
    });
    return found;
}

// A parallel passes.chain(): marks the places that 0 leads to by jumps of growing length, as in list ranking (Wyllie
// 1979). After a round the marked places are the first 8, 64, 512, ... of the chain, because eight jumps take less time
// than a pass. More rounds than the chain needs change nothing, and take less time than a check after each.
template <class Passes, class Next>
Array<index_t> chain_by_jumps(Passes& passes, index_t n, Next next) {
    if (n == 0) return passes.template scratch<index_t>(0);
    Array<index_t> jumps = passes.template scratch<index_t>(std::size_t(n) + 1);
    Array<index_t> longer = passes.template scratch<index_t>(std::size_t(n) + 1);
    Array<Mark> marks = passes.template scratch<Mark>(n);
    Mark* const mark = marks.data();
    {
        index_t* const jump = jumps.data();
        passes.each(std::int64_t(n) + 1, [=] SPMVGPU_BODY(std::int64_t i) {
            const index_t reached = i < n ? next(static_cast<index_t>(i)) : n;
            jump[i] = reached < n ? reached : n;
            if (i < n) mark[i] = i == 0;
        });
    }
    do {
        constexpr int kRoundsAtOnce = 4;
        for (int round = 0; round < kRoundsAtOnce; ++round) {
            const index_t* const jump = jumps.data();
            index_t* const to = longer.data();
            passes.each(std::int64_t(n) + 1, [=] SPMVGPU_BODY(std::int64_t i) {
                constexpr int kJumps = 8;
                const bool marked = i < n && is_marked(mark + i);
                index_t reached = jump[i];
                for (int others = 1; others < kJumps; ++others) {
                    if (marked && reached < n) set_mark(mark + reached);
                    reached = jump[reached];
                }
                to[i] = reached;
            });
            std::swap(jumps, longer);
        }
    } while (passes.read(jumps.data()) < n);
    return select(passes, n, [=] SPMVGPU_BODY(std::int64_t i) { return mark[i] != 0; });
}

}  // namespace spmvgpu
