// What the sliced formats share: rows sorted by length within windows and cut into slices of a warp's lanes each.
#pragma once

#include <algorithm>

#include "core/array.hpp"
#include "formats/shared/slice_products.hpp"

namespace spmvgpu {

// Made by cut_into_slices() of slices_build.hpp, in host memory or on the device.
struct Slices {
    int sigma;                    // window of the sort in rows; 1 keeps their order
    Array<index_t> permutation;   // length rows: row at a place of a slice; empty where sigma is 1
    Array<std::int64_t> offsets;  // length slices + 1, in slots; 64-bit, for the slots may be too many to be stored
    std::int64_t slots = 0;       // the last offset
    index_t widest = 0;           // columns of the widest slice

    index_t count() const { return static_cast<index_t>(offsets.size()) - 1; }
    index_t row_at(index_t i) const { return permutation.size() ? permutation[i] : i; }
};

// The end of the rows of a slice.
inline index_t slice_end(index_t slice, index_t rows) {
    const index_t first = slice * kSliceLanes;
    return first + std::min(kSliceLanes, rows - first);
}

// How many warps of a GPU share the columns of each of so many slices, the widest of which has so many columns.
int choose_warps_per_slice(index_t slices, std::int64_t slots, std::int64_t widest, int processors);

}  // namespace spmvgpu
