// Passes on the cores of the CPU; see passes.hpp.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/host_vector.hpp"
#include "core/interrupt.hpp"
#include "core/parallel.hpp"
#include "passes/passes.hpp"

namespace spmvgpu {

class HostPasses {
public:
    template <class T>
    Array<T> make(std::size_t n) const {
        return Array<T>(n);
    }
    template <class T>
    Array<T> scratch(std::size_t n) const {
        return Array<T>(n);
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

    template <class Key>
    Array<index_t> order_by_key(index_t n, index_t window, index_t /*largest*/, const Key& key) const {
        Array<index_t> order(n);
        std::iota(order.begin(), order.end(), 0);
        const std::int64_t windows = n / window + (n % window != 0);
        constexpr std::int64_t kNanosecondsPerElement = 20;
        parallel_for(windows, kNanosecondsPerElement * n, [&](std::int64_t w) {
            InterruptTimer timer;  // for a window of very many
            std::stable_sort(order.begin() + w * window, order.begin() + std::min<std::int64_t>(n, (w + 1) * window),
                             [&](index_t a, index_t b) {
                                 timer.work(1);
                                 return key(a) < key(b);
                             });
        });
        return order;
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
};

}  // namespace spmvgpu
