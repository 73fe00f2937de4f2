// What the sliced formats share: rows sorted by length within windows and cut into slices of a warp's lanes each.
#pragma once

#include <algorithm>

#include "core/array.hpp"
#include "core/host_vector.hpp"
#include "formats/slice_products.hpp"

namespace spmvgpu {

struct Slices {
    int sigma;                   // window of the sort in rows; 1 keeps their order
    Array<index_t> permutation;  // length rows: row at a place of a slice; empty where sigma is 1
    HostVector<std::int64_t>
        offsets;  // length slices + 1, in slots; 64-bit, for the slots may be too many to be stored

    index_t count() const { return static_cast<index_t>(offsets.size()) - 1; }
    std::int64_t slots() const { return offsets.back(); }
    index_t row_at(index_t i) const { return permutation.size() ? permutation[i] : i; }
};

// The end of the rows of a slice.
inline index_t slice_end(index_t slice, index_t rows) {
    const index_t first = slice * kSliceLanes;
    return first + std::min(kSliceLanes, rows - first);
}

// The slices with windows of sigma rows; of sigma 0 with the window that sorting pays for, which it does where it saves
// more than a factor worth_sorting of the slots.
Slices cut_into_slices(index_t rows, index_t nnz, const Array<index_t>& row_offsets, int sigma, double worth_sorting);

// How many warps of a GPU share the columns of a slice.
int choose_warps_per_slice(const HostVector<std::int64_t>& slice_offsets, int processors);

}  // namespace spmvgpu
