// How rows are cut into slices, on the host or on a GPU; see builder.hpp.
#pragma once

#include <algorithm>
#include <utility>

#include "formats/builder.hpp"
#include "formats/slices.hpp"

namespace spmvgpu {

// The slices with windows of sigma rows, which are sorted by descending length.
template <class Passes>
Slices cut_with_windows(Passes& passes, index_t rows, const index_t* row_offsets, index_t sigma) {
    const index_t slices = rows / kSliceLanes + (rows % kSliceLanes != 0);
    Slices result{sigma, {}, passes.template scratch<std::int64_t>(slices + std::size_t(1)), 0};
    if (sigma > 1) {
        const auto longest = largest<index_t>(
            passes, rows, SPMVGPU_BODY(std::int64_t row) { return row_offsets[row + 1] - row_offsets[row]; });
        result.permutation = passes.keep(passes.order_by_key(
            rows, sigma, longest,
            SPMVGPU_BODY(index_t row) { return longest - (row_offsets[row + 1] - row_offsets[row]); }));
    }
    const index_t* const permutation = result.permutation.size() > 0 ? result.permutation.data() : nullptr;
    std::int64_t* const offsets = result.offsets.data();
    passes.each(
        slices,
        SPMVGPU_BODY(std::int64_t s) {
            index_t width = 0;
            for (std::int64_t i = s * kSliceLanes; i < (s + 1) * kSliceLanes && i < rows; ++i) {
                const index_t row = permutation == nullptr ? static_cast<index_t>(i) : permutation[i];
                const index_t length = row_offsets[row + 1] - row_offsets[row];
                if (length > width) width = length;
            }
            offsets[s] = std::int64_t(width) * kSliceLanes;
        },
        kSliceLanes);
    result.slots = passes.scan(offsets, slices);
    return result;
}

// The slices with windows of sigma rows; of sigma 0 with the window that sorting pays for, which it does where it saves
// more than a factor worth_sorting of the slots.
template <class Passes>
Slices cut_into_slices(Passes& passes, index_t rows, index_t nnz, const index_t* row_offsets, int sigma,
                       double worth_sorting) {
    // Windows that are looked at. A small one keeps neighbouring rows, and so x, close together.
    constexpr index_t kSigmas[] = {256, 4096, 16384};
    constexpr double kWorthSortingFar = 1.25;  // in windows beyond the first only from this padding on
    if (sigma != 0) return cut_with_windows(passes, rows, row_offsets, sigma);
    Slices best = cut_with_windows(passes, rows, row_offsets, 1);
    for (const index_t candidate : kSigmas) {
        const double enough = best.sigma > 1 ? std::max(worth_sorting, kWorthSortingFar) : worth_sorting;
        if (static_cast<double>(best.slots) <= enough * nnz) break;
        Slices next = cut_with_windows(passes, rows, row_offsets, candidate);
        if (worth_sorting * static_cast<double>(next.slots) < static_cast<double>(best.slots)) best = std::move(next);
    }
    return best;
}

// How many warps share the columns of a slice.
template <class Passes>
int warps_per_slice(Passes& passes, const Slices& slices, int processors) {
    const std::int64_t* const offsets = slices.offsets.data();
    const auto widest = largest<std::int64_t>(
        passes, slices.count(), SPMVGPU_BODY(std::int64_t s) { return offsets[s + 1] - offsets[s]; });
    return choose_warps_per_slice(slices.count(), slices.slots, widest / kSliceLanes, processors);
}

}  // namespace spmvgpu
