// The numbers of the groups of long rows, sorted by the whole device (expand, sort and compress: Bell, Dalton and
// Olson, "Exposing fine-grained parallelism in algebraic multigrid methods", 2012). Some lanes would take longer for
// one such row than the device for all others.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/passes/passes.hpp"
#include "core/types.hpp"

namespace spmvgpu::multigrid {

template <class Group>
SPMVGPU_IN_BODY std::int64_t count_numbers(const Group& group) {
    std::int64_t count = 0;
    for (index_t i = 0; i < group.runs; ++i) {
        const Run run = group.run(i);
        count += run.end - run.begin;
    }
    return count;
}

inline void check_entries(std::int64_t entries) {
    if (entries <= std::numeric_limits<index_t>::max()) return;
    throw std::invalid_argument("a product of the hierarchy would have " + std::to_string(entries) +
                                " stored entries; at most 2**31 - 1 are allowed");
}

// Rows of a list, from `first` on.
struct ListedStretch {
    std::int64_t first;
    index_t count;
};

// Stretches of a list of rows whose groups have at most kMost numbers together, or one row each.
template <class Passes, class GroupOf>
std::vector<ListedStretch> stretches_to_sort(Passes& passes, const Array<index_t>& rows, const GroupOf& group_of) {
    constexpr std::int64_t kMost = 1 << 26;  // about 40 bytes each
    Array<std::int64_t> counts_of_rows = passes.template scratch<std::int64_t>(rows.size());
    std::int64_t* const counts = counts_of_rows.data();
    const index_t* const listed = rows.data();
    passes.each(static_cast<std::int64_t>(rows.size()),
                [=] SPMVGPU_BODY(std::int64_t i) { counts[i] = count_numbers(group_of(listed[i])); });
    std::vector<ListedStretch> stretches;
    std::int64_t sum = 0;
    for (const std::int64_t count : passes.read_all(counts_of_rows)) {
        check_entries(count);
        const bool fits = !stretches.empty() && sum + count <= kMost;
        if (!fits) stretches.push_back({stretches.empty() ? 0 : stretches.back().first + stretches.back().count, 0});
        sum = fits ? sum + count : count;
        ++stretches.back().count;
    }
    return stretches;
}

// Numbers by row, then by size; equal ones keep their order. The k-th of them is term order[k], which is entry
// entries[order[k]] of run runs[order[k]] of all; run r belongs to row rows_of_runs[r] of the list.
struct SortedTerms {
    Array<index_t> first_runs;  // the first run of each row, and the number of runs
    Array<index_t> rows_of_runs;
    Array<index_t> runs, entries, numbers, order;
    Array<index_t> starts;        // places in `order` where a distinct number begins, and the end
    Array<index_t> first_starts;  // the first place in `starts` of each row, and the number of distinct numbers
};

template <class Passes, class GroupOf>
SortedTerms sort_terms(Passes& passes, const index_t* listed, index_t rows, index_t cols, const GroupOf& group_of) {
    SortedTerms made;
    made.first_runs = passes.template scratch<index_t>(rows + std::size_t(1));
    index_t* const first_runs = made.first_runs.data();
    passes.each(rows, [=] SPMVGPU_BODY(std::int64_t i) {
        const index_t count = group_of(listed[i]).runs;
        first_runs[i] = count > 0 ? count : 0;
    });
    const auto run_count = static_cast<index_t>(passes.scan(first_runs, rows));
    made.rows_of_runs = passes.template scratch<index_t>(run_count);
    Array<index_t> first_terms_of_runs = passes.template scratch<index_t>(run_count + std::size_t(1));
    index_t *const row_of = made.rows_of_runs.data(), *const first_terms = first_terms_of_runs.data();
    passes.each_entry(rows, first_runs, run_count, [=] SPMVGPU_BODY(index_t i, index_t r) {
        const Run run = group_of(listed[i]).run(r - first_runs[i]);
        row_of[r] = i;
        first_terms[r] = run.end - run.begin;
    });
    const auto count = static_cast<index_t>(passes.scan(first_terms, run_count));
    made.runs = passes.template scratch<index_t>(count);
    made.entries = passes.template scratch<index_t>(count);
    made.numbers = passes.template scratch<index_t>(count);
    index_t *const runs = made.runs.data(), *const entries = made.entries.data(), *const numbers = made.numbers.data();
    passes.each_entry(run_count, first_terms, count, [=] SPMVGPU_BODY(index_t r, index_t t) {
        const auto group = group_of(listed[row_of[r]]);
        const auto run = group.run(r - first_runs[row_of[r]]);
        runs[t] = r;
        entries[t] = run.begin + (t - first_terms[r]);
        numbers[t] = group.number(run, entries[t]);
    });
    const index_t window = std::max(count, 1);
    const Array<index_t> by_number =
        passes.order_by_key(count, window, std::max(cols, 1) - 1, [=] SPMVGPU_BODY(index_t t) { return numbers[t]; });
    const index_t* const sorted = by_number.data();
    made.order = passes.order_by_key(count, window, std::max(rows, 1) - 1,
                                     [=] SPMVGPU_BODY(index_t k) { return row_of[runs[sorted[k]]]; });
    index_t* const order = made.order.data();
    passes.each(count, [=] SPMVGPU_BODY(std::int64_t k) { order[k] = sorted[order[k]]; });
    made.starts = select(passes, count + 1, [=] SPMVGPU_BODY(std::int64_t k) {
        if (k == 0 || k == count) return true;
        const index_t a = order[k - 1], b = order[k];
        return numbers[a] != numbers[b] || row_of[runs[a]] != row_of[runs[b]];
    });
    made.first_starts = passes.template scratch<index_t>(rows + std::size_t(1));
    index_t* const first_starts = made.first_starts.data();
    const index_t* const starts = made.starts.data();
    const auto distinct = static_cast<index_t>(made.starts.size()) - 1;
    passes.each(rows + std::int64_t(1), [=] SPMVGPU_BODY(std::int64_t i) {
        index_t begin = 0, end = distinct;
        while (begin < end) {
            const index_t middle = begin + (end - begin) / 2;
            if (row_of[runs[order[starts[middle]]]] < i) {
                begin = middle + 1;
            } else {
                end = middle;
            }
        }
        first_starts[i] = begin;
    });
    return made;
}

}  // namespace spmvgpu::multigrid
