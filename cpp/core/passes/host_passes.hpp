#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/host_vector.hpp"
#include "core/interrupt.hpp"
#include "core/parallel.hpp"
#include "core/passes/lanes.hpp"
#include "core/passes/passes.hpp"

namespace spmvgpu {

// A set of numbers below 2^kNumberBits, at most `most` of them at a time, that forgets them in constant time: a slot
// holds a number and the round in which it came.
class NumberSet {
public:
    explicit NumberSet(std::int64_t most)
        : slot_bits_(slot_bits_for(most)), slots_(std::size_t(1) << slot_bits_, std::uint64_t(0)) {}

    void clear() {
        round_ += std::uint64_t(1) << kNumberBits;
        count_ = 0;
        if (round_ != 0) return;
        std::fill(slots_.begin(), slots_.end(), 0);  // after 2^24 rounds
        clear();
    }
    void add(std::uint64_t number) {
        number &= (std::uint64_t(1) << kNumberBits) - 1;  // in broken arrays a number may be anything
        const std::uint64_t in_round = round_ | number, mask = slots_.size() - 1;
        std::uint64_t at = first_slot(number, slot_bits_);
        for (; slots_[at] >= round_; at = (at + 1) & mask) {
            if (slots_[at] == in_round) return;
        }
        slots_[at] = in_round;
        ++count_;
    }
    std::int64_t count() const { return count_; }

private:
    int slot_bits_;
    HostVector<std::uint64_t> slots_;
    std::uint64_t round_ = std::uint64_t(1) << kNumberBits;  // matches no slot yet
    std::int64_t count_ = 0;
};

class HostPasses {
public:
    using Lanes = HostLanes;

    void finish() const {}

    template <class T>
    Array<T> make(std::size_t n) const {
        return Array<T>(n);
    }
    template <class T>
    Array<T> scratch(std::size_t n) const {
        return Array<T>(n);
    }
    template <class T>
    Array<T> keep(const Array<T>& array) const {
        return array;
    }

    template <class T>
    void fill(T* to, std::int64_t n, T value) const {
        parallel_ranges(n, n, [&](std::int64_t begin, std::int64_t end) { std::fill(to + begin, to + end, value); });
    }

    template <class Body>
    void each(std::int64_t n, const Body& body, std::int64_t work = 1) const {
        parallel_for(n, work * n, body);
    }

    template <class Body>
    void each_in_step(std::int64_t n, const Body& body, std::int64_t work) const {
        parallel_for(n, work * n, [&](std::int64_t i) { body(Lanes{}, i); });
    }

    template <class Body>
    void each_in_step_with(std::int64_t n, std::int64_t words, const Body& body, std::int64_t work) const {
        parallel_ranges(n, work * n, [&](std::int64_t begin, std::int64_t end) {
            HostVector<Word> memory(words);
            InterruptTimer timer;
            for (std::int64_t i = begin; i < end; ++i, timer.work(work)) body(Lanes{}, i, memory.data());
        });
    }

    template <class Body>
    void each_by_few_with(std::int64_t n, std::int64_t words, const Body& body, std::int64_t work) const {
        each_in_step_with(n, words, body, work);
    }

    template <class Body>
    void each_by_block_with(std::int64_t n, std::int64_t words, const Body& body, std::int64_t work) const {
        each_in_step_with(n, words, body, work);
    }

    template <class Body>
    void each_entry(index_t rows, const index_t* row_offsets, index_t nnz, const Body& body) const {
        parallel_ranges(nnz, nnz, [&](std::int64_t first, std::int64_t last) {
            const auto begin = static_cast<index_t>(first), end = static_cast<index_t>(last);
            index_t k = begin;
            for (index_t row = row_of_entry(row_offsets, rows, begin); k < end; ++row) {
                for (const index_t row_end = std::min(end, row_offsets[row + 1]); k < row_end; ++k) body(row, k);
            }
        });
    }

    template <class Sum, class Body>
    Sum reduce(std::int64_t n, const Body& body, std::int64_t work = 1) const {
        return parallel_sum<Sum>(n, work * n, [&](std::int64_t begin, std::int64_t end) {
            Sum sum{};
            for (std::int64_t i = begin; i < end; ++i) sum += body(i);
            return sum;
        });
    }

    template <class Sum, class V, class Term, class Body>
    Sum reduce_rows(index_t rows, const index_t* row_offsets, index_t /*nnz*/, const Term& term, const Body& body,
                    std::int64_t work = 1) const {
        return reduce<Sum>(
            rows,
            [&](std::int64_t i) {
                const auto row = static_cast<index_t>(i);
                V sum(0);
                for (index_t k = row_offsets[row]; k < row_offsets[row + 1]; ++k) sum += term(k);
                return body(row, sum);
            },
            work);
    }

    template <class Body>
    void add(std::int64_t* to, std::int64_t n, const Body& body, std::int64_t work = 1) const {
        *to += reduce<std::int64_t>(n, body, work);
    }

    template <class V, class Term, class Body>
    void add_rows(std::int64_t* to, index_t rows, const index_t* row_offsets, index_t nnz, const Term& term,
                  const Body& body, std::int64_t work = 1) const {
        *to += reduce_rows<std::int64_t, V>(rows, row_offsets, nnz, term, body, work);
    }

    template <class T>
    T scan(T* counts, std::int64_t n) const {
        const std::int64_t pieces = std::max<std::int64_t>(1, std::min(piece_count(n), n));
        std::vector<T> before(pieces + 1, T(0));
        for_each_piece(pieces, [&](std::int64_t p) {
            before[p + 1] =
                std::accumulate(counts + part_begin(n, pieces, p), counts + part_begin(n, pieces, p + 1), T(0));
        });
        std::partial_sum(before.begin(), before.end(), before.begin());
        for_each_piece(pieces, [&](std::int64_t p) {
            T* const begin = counts + part_begin(n, pieces, p);
            std::exclusive_scan(begin, counts + part_begin(n, pieces, p + 1), begin, before[p]);
        });
        return counts[n] = before[pieces];
    }

    template <class T>
    void start_scan(T* counts, std::int64_t n) const {
        scan(counts, n);
    }

    template <class Key>
    Array<index_t> order_by_key(index_t n, index_t window, index_t largest, const Key& key) const {
        Array<index_t> order(n);
        if (window >= n && largest / 4 <= n) {  // few keys for one window: a counting sort
            HostVector<index_t> next(std::size_t(largest) + 2, 0);
            InterruptTimer timer;
            for (index_t i = 0; i < n; ++i, timer.work(1)) ++next[key(i) + 1];
            std::partial_sum(next.begin(), next.end(), next.begin());
            for (index_t i = 0; i < n; ++i, timer.work(1)) order[next[key(i)]++] = i;
            return order;
        }
        std::iota(order.begin(), order.end(), 0);
        const std::int64_t windows = n / window + (n % window != 0);
        constexpr std::int64_t kNanosecondsPerElement = 20;
        parallel_for(windows, kNanosecondsPerElement * n, [&](std::int64_t w) {
            InterruptTimer timer;  // for a window with many groups
            std::stable_sort(order.begin() + w * window, order.begin() + std::min<std::int64_t>(n, (w + 1) * window),
                             [&](index_t a, index_t b) {
                                 timer.work(1);
                                 return key(a) < key(b);
                             });
        });
        return order;
    }

    template <class Group, class Body>
    void distinct(std::int64_t n, std::int64_t most, const Body& body, std::int64_t work = 1) const {
        parallel_ranges(n, work * n, [&](std::int64_t begin, std::int64_t end) {
            NumberSet set(most);
            for (std::int64_t g = begin; g < end; ++g) {
                const Group group = body(g);
                Tally found;
                set.clear();
                for (index_t i = 0; i < group.runs; ++i) {
                    const auto run = group.run(i);
                    for (index_t k = run.begin; k < run.end; ++k, ++found.all) set.add(group.number(run, k));
                }
                found.different = set.count();
                add_to_tally(group.tally, found);
            }
        });
    }

    template <class Next>
    Array<index_t> chain(index_t n, const Next& next) const {
        HostVector<index_t> visited;
        InterruptTimer timer;
        for (index_t i = 0; i < n; i = next(i)) {
            visited.push_back(i);
            timer.work(16);
        }
        return Array<index_t>::from(visited);
    }

    template <class T>
    T read(const T* from) const {
        return *from;
    }
    template <class T>
    std::vector<T> read_all(const Array<T>& array) const {
        return {array.begin(), array.end()};
    }
    template <class T>
    void write_all(Array<T>& array, const T* values) const {
        std::copy_n(values, array.size(), array.data());
    }
};

}  // namespace spmvgpu
