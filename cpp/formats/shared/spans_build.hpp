// Planning for formats that cut the non-zeros into parts of equal size without regard to rows; see formats/builder.hpp.
#pragma once

#include "core/array.hpp"
#include "core/passes/passes.hpp"
#include "formats/shared/spans.hpp"

namespace spmvgpu {

// The bounds of parts of `part` non-zeros each; the last one may have fewer.
template <class Passes>
Array<RowBound> find_bounds(Passes& passes, index_t rows, const index_t* row_offsets, index_t nnz, index_t part) {
    Array<RowBound> bounds = passes.template make<RowBound>(count_parts(nnz, part));
    RowBound* const bound = bounds.data();
    constexpr std::int64_t kNanosecondsPerSearch = 200;
    passes.each(
        static_cast<std::int64_t>(bounds.size()),
        [=] SPMVGPU_BODY(std::int64_t p) {
            const auto begin = static_cast<index_t>(p * part);
            const index_t left = nnz - begin, last = begin + (left < part ? left : part) - 1;
            bound[p] = {row_of_entry(row_offsets, rows, begin), row_of_entry(row_offsets, rows, last)};
        },
        2 * kNanosecondsPerSearch);
    return bounds;
}

// Returns true if the first row of a part began in the part before it.
constexpr bool continues_row(const RowBound* bounds, std::int64_t p) {
    return p > 0 && bounds[p - 1].last == bounds[p].first;
}

// The rows that two or more consecutive parts share.
template <class Passes>
Array<RowSpan> find_spans(Passes& passes, const Array<RowBound>& bounds) {
    const auto parts = static_cast<index_t>(bounds.size());
    const RowBound* const bound = bounds.data();
    // The second part of each such row, and its last one.
    const Array<index_t> seconds = select(passes, parts, [=] SPMVGPU_BODY(std::int64_t p) {
        return continues_row(bound, p) && !(continues_row(bound, p - 1) && bound[p - 1].first == bound[p].first);
    });
    const Array<index_t> lasts = select(passes, parts, [=] SPMVGPU_BODY(std::int64_t p) {
        return continues_row(bound, p) &&
               !(p + 1 < parts && continues_row(bound, p + 1) && bound[p + 1].first == bound[p].first);
    });
    Array<RowSpan> spans = passes.template make<RowSpan>(seconds.size());
    RowSpan* const span = spans.data();
    const index_t *const second = seconds.data(), *const last = lasts.data();
    passes.each(static_cast<std::int64_t>(spans.size()), [=] SPMVGPU_BODY(std::int64_t i) {
        span[i] = {bound[second[i]].first, second[i] - 1, last[i]};
    });
    return spans;
}

}  // namespace spmvgpu
