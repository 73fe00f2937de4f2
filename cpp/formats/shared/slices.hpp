// Common parts of the sliced formats: rows sorted by length within windows and cut into slices of a warp's lanes each.
#pragma once

#include <algorithm>
#include <utility>

#include "core/array.hpp"
#include "formats/shared/slice_products.hpp"
#include "formats/times.hpp"

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

inline index_t slice_end(index_t slice, index_t rows) {
    const index_t first = slice * kSliceLanes;
    return first + std::min(kSliceLanes, rows - first);
}

// Properties of a format's kernel with slices that its times on a GPU depend on.
struct SliceKernel {
    times::Terms costs;
    int asked_warps, most_warps;  // warps that share the slots of a slice; 0 if the tuning does not say
    double slot_bytes;
    double max_padding;           // slots per entry, beyond which the format refuses the matrix
    double worth_sorting = 1.05;  // on the CPU: sorts if that saves this factor of the slots
    int block = 1;
    double in_flight = 4;
};

// Predicted times of products with a matrix cut into slices in one way or another.
class SliceTimes {
public:
    SliceTimes(const SliceKernel& kernel, const Features& features, int item_bytes, const Target& target);

    // Microseconds on a GPU; on the CPU slots, which compare as well. Slices that the format would refuse come last.
    double operator()(const Slices& slices) const;
    // The fastest number of warps of a GPU per slice, for slices of this many bytes.
    int fastest_warps(const Slices& slices, double bytes) const { return fastest(slices, bytes).second; }

private:
    std::pair<double, int> fastest(const Slices& slices, double bytes) const;

    SliceKernel kernel_;
    bool is_for_gpu_;
    Features features_;
    times::Work work_;
};

}  // namespace spmvgpu
