#include "formats/slices.hpp"

#include <algorithm>
#include <numeric>

#include "core/interrupt.hpp"
#include "core/parallel.hpp"

namespace spmvgpu {

namespace {

// Windows that the automatic choice of sigma looks at. A small one keeps neighbouring rows, and so x, close together.
constexpr index_t kSigmas[] = {1, 256, 4096, 16384};
constexpr double kWorthSortingFar = 1.25;  // in windows beyond the first only from this padding on

// Rows in stored order: sorted by descending length, stably, within windows of sigma rows. Empty if they keep theirs.
Array<index_t> sort_rows(index_t rows, const Array<index_t>& row_offsets, index_t sigma) {
    if (sigma == 1) return {};
    Array<index_t> order(rows);
    std::iota(order.begin(), order.end(), 0);
    const auto length = [&](index_t row) { return row_offsets[row + 1] - row_offsets[row]; };
    const auto windows = (std::int64_t(rows) + sigma - 1) / sigma;
    constexpr std::int64_t kNanosecondsPerRow = 20;
    parallel_for(windows, kNanosecondsPerRow * rows, [&](std::int64_t w) {
        InterruptTimer timer;  // for a window of very many rows
        std::stable_sort(order.begin() + w * sigma, order.begin() + std::min<std::int64_t>(rows, (w + 1) * sigma),
                         [&](index_t a, index_t b) {
                             timer.work(1);
                             return length(a) > length(b);
                         });
    });
    return order;
}

Slices cut(index_t rows, const Array<index_t>& row_offsets, int sigma) {
    const index_t count = rows / kSliceLanes + (rows % kSliceLanes != 0);
    Slices slices{sigma, sort_rows(rows, row_offsets, sigma), HostVector<std::int64_t>(count + std::size_t(1))};
    parallel_for(count, rows, [&](index_t s) {
        index_t width = 0;
        for (index_t i = s * kSliceLanes; i < slice_end(s, rows); ++i) {
            const index_t row = slices.row_at(i);
            width = std::max(width, row_offsets[row + 1] - row_offsets[row]);
        }
        slices.offsets[s + 1] = std::int64_t(width) * kSliceLanes;
    });
    std::partial_sum(slices.offsets.begin(), slices.offsets.end(), slices.offsets.begin());
    return slices;
}

}  // namespace

Slices cut_into_slices(index_t rows, index_t nnz, const Array<index_t>& row_offsets, int sigma, double worth_sorting) {
    if (sigma != 0) return cut(rows, row_offsets, sigma);
    Slices best = cut(rows, row_offsets, 1);
    for (index_t candidate : kSigmas) {
        const double enough = best.sigma > 1 ? std::max(worth_sorting, kWorthSortingFar) : worth_sorting;
        if (static_cast<double>(best.slots()) <= enough * nnz) break;
        Slices next = cut(rows, row_offsets, candidate);
        if (worth_sorting * static_cast<double>(next.slots()) < static_cast<double>(best.slots())) {
            best = std::move(next);
        }
    }
    return best;
}

int choose_warps_per_slice(const HostVector<std::int64_t>& offsets, int processors) {
    // Share slices among warps until each has few columns left to walk, or the device has its fill of warps: one round
    // of them where latency rules, several where bandwidth does. Whatever their number, leave none a very wide slice.
    constexpr std::int64_t kLarge = 3'000'000;
    constexpr double kMaxColumnsPerWarp = 64;
    const bool large = offsets.back() >= kLarge;
    const double columns_per_warp = large ? 6 : 3, warps_per_processor = large ? 256 : 64;
    const auto slices = static_cast<double>(offsets.size() - 1);
    std::int64_t widest = 0;
    for (std::size_t s = 1; s < offsets.size(); ++s) {
        widest = std::max(widest, (offsets[s] - offsets[s - 1]) / kSliceLanes);
    }
    const double width = static_cast<double>(offsets.back()) / std::max(slices, 1.0) / kSliceLanes;
    int warps = 1;
    while (warps < 32 && ((warps * columns_per_warp < width && warps * slices < warps_per_processor * processors) ||
                          warps * kMaxColumnsPerWarp < static_cast<double>(widest))) {
        warps *= 2;
    }
    return warps;
}

}  // namespace spmvgpu
