// How rows are cut into slices, on the host or on a GPU; see formats/builder.hpp.
#pragma once

#include <algorithm>
#include <utility>

#include "formats/builder.hpp"
#include "formats/shared/slices.hpp"

namespace spmvgpu {

// For rows in their order: the slots of their slices, in columns, and the longest row.
struct Widths {
    std::int64_t columns = 0;
    index_t longest = 0;

    constexpr Widths& operator+=(const Widths& other) {
        columns += other.columns;
        longest = longest > other.longest ? longest : other.longest;
        return *this;
    }
};

constexpr index_t slice_width(const index_t* row_offsets, const index_t* permutation, index_t rows,
                              std::int64_t slice) {
    index_t width = 0;
    for (std::int64_t i = slice * kSliceLanes; i < (slice + 1) * kSliceLanes && i < rows; ++i) {
        const index_t row = permutation == nullptr ? static_cast<index_t>(i) : permutation[i];
        const index_t length = row_offsets[row + 1] - row_offsets[row];
        if (length > width) width = length;
    }
    return width;
}

// The slices with windows of sigma rows, which are sorted by descending length; the length of the longest row is known.
template <class Passes>
Slices cut_with_windows(Passes& passes, index_t rows, const index_t* row_offsets, index_t sigma, index_t longest) {
    const index_t slices = rows / kSliceLanes + (rows % kSliceLanes != 0);
    Slices result{sigma, {}, passes.template scratch<std::int64_t>(slices + std::size_t(1)), 0, longest};
    if (sigma > 1) {
        result.permutation = passes.keep(passes.order_by_key(rows, sigma, longest, [=] SPMVGPU_BODY(index_t row) {
            return longest - (row_offsets[row + 1] - row_offsets[row]);
        }));
    }
    const index_t* const permutation = result.permutation.size() > 0 ? result.permutation.data() : nullptr;
    std::int64_t* const offsets = result.offsets.data();
    passes.each(
        slices,
        [=] SPMVGPU_BODY(std::int64_t s) {
            offsets[s] = std::int64_t(slice_width(row_offsets, permutation, rows, s)) * kSliceLanes;
        },
        kSliceLanes);
    result.slots = passes.scan(offsets, slices);
    return result;
}

// The slices with windows of sigma rows; for sigma 0 with the window whose slices take the least time, according to a
// function: microseconds on a GPU, any unit on the CPU.
template <class Passes, class Time>
Slices cut_into_slices(Passes& passes, index_t rows, index_t nnz, const index_t* row_offsets, int sigma,
                       const Time& time) {
    // Windows to try. A small one keeps neighbouring rows, and so x, close together.
    constexpr index_t kSigmas[] = {256, 4096, 16384};
    constexpr double kWorthSortingFar = 1.25;  // padding from which windows beyond the first are tried
    const auto in_order = passes.template reduce<Widths>(
        rows / kSliceLanes + (rows % kSliceLanes != 0),
        [=] SPMVGPU_BODY(std::int64_t s) {
            const index_t width = slice_width(row_offsets, nullptr, rows, s);
            return Widths{width, width};
        },
        kSliceLanes);
    const auto cut = [&](index_t window) {
        return cut_with_windows(passes, rows, row_offsets, window, in_order.longest);
    };
    if (sigma != 0) return cut(sigma);
    Slices best{1, {}, {}, in_order.columns * kSliceLanes, in_order.longest};
    for (const index_t candidate : kSigmas) {
        if (best.sigma > 1 && static_cast<double>(best.slots) <= kWorthSortingFar * nnz) break;
        const Slices without_padding{candidate, {}, {}, nnz, in_order.longest};
        if (time(without_padding) >= time(best)) break;
        Slices next = cut(candidate);
        if (time(next) < time(best)) best = std::move(next);
    }
    return best.sigma > 1 ? best : cut(1);
}

}  // namespace spmvgpu
