// The sectors of x that the entries of a matrix gather from, counted in samples; as passes, see passes.hpp.
#pragma once

#include <algorithm>
#include <bit>

#include "core/passes/passes.hpp"

namespace spmvgpu {

// Columns that share a 32-byte sector of x, as a shift.
constexpr int sector_shift(int item_bytes) { return std::countr_zero(32u / static_cast<unsigned>(item_bytes)); }

inline double sectors_per_entry(const Tally& tally) {
    return static_cast<double>(tally.different) / static_cast<double>(std::max<std::int64_t>(tally.all, 1));
}

struct Window {
    Tally* tally;
    const index_t* col_indices;
    int shift;
    Run entries;
    index_t runs = 1;

    constexpr Run run(index_t /*i*/) const { return entries; }
    constexpr index_t number(const Run& /*run*/, index_t k) const { return col_indices[k] >> shift; }
};

// Tallies windows of consecutive entries, spread evenly, that have about `sampled` entries together.
template <class Passes>
void sample_windows(Passes& passes, index_t nnz, const index_t* col_indices, int shift, index_t window, index_t sampled,
                    Tally* tally) {
    const index_t windows = nnz / window + (nnz % window != 0);
    const index_t samples = std::min(windows, std::max<index_t>(2, sampled / window));
    passes.template distinct<Window>(
        samples, std::min(nnz, window),
        [=] SPMVGPU_BODY(std::int64_t s) {
            const auto begin = static_cast<index_t>(windows / samples * s + windows % samples * s / samples) * window;
            return Window{tally, col_indices, shift, {begin, std::min(nnz - begin, window) + begin}};
        },
        4 * std::int64_t(window));
}

}  // namespace spmvgpu
