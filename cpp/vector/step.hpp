// The vocabulary that solvers are written in: steps. A step is one pass over vectors, with whatever sums it yields, so
// what a textbook writes as a chain of axpy and dot is fused by construction and no vector is read twice:
//
//     struct Step {
//         static constexpr int kSums;               // sums over all elements, 0 to kMaxSums
//         struct Loaded;                            // what is read of one element
//         constexpr bool idle(const State&) const;  // whether the whole pass is left out
//         constexpr Loaded load(index_t i) const;
//         constexpr Sums<kSums> apply(const State&, index_t i, Loaded) const;  // writes element i; gives its summands
//         constexpr void then(State&, const Sums<kSums>&) const;               // scalar work, done once; if kSums > 0
//     };
//
// The solver's scalars are in State, which lives on the device. While a step runs, then() must not change what idle()
// and apply() of the same step read. Reading is apart from writing so that several elements can be in flight at once.
// Steps are constexpr, so that CPU and GPU share their code.
#pragma once

#include "core/types.hpp"

namespace spmvgpu {

inline constexpr int kMaxSums = 3;

template <int kCount>
struct Sums {
    // double for float vectors too: their squares neither over- nor underflow then
    double value[kCount > 0 ? kCount : 1] = {};

    constexpr double operator[](int i) const { return value[i]; }
    constexpr Sums& operator+=(const Sums& other) {
        for (int i = 0; i < kCount; ++i) value[i] += other.value[i];
        return *this;
    }
};

}  // namespace spmvgpu
