// Steps of solvers that one GPU does in one kernel instead of several.
#pragma once

#include <algorithm>

#include "solvers/engines/chained.cuh"
#include "solvers/engines/orthogonalise.cuh"
#include "solvers/engines/resident.cuh"

namespace spmvgpu::gpu {

struct CudaShortcuts {
    template <class T>
    static constexpr std::size_t partial_bytes() {
        return std::max(ResidentSystem<T>::partial_bytes(), Chain<T>::partial_bytes());
    }

    template <class T, class S, class Iteration>
    static bool iterate(Context<T, CudaQueue>& solve, S* s, int period, const Iteration& iteration) {
        return iterate_resident(solve, s, iteration) || iterate_chained(solve, s, period, iteration);
    }

    template <class T, class S>
    static bool orthogonalise(Context<T, CudaQueue>& solve, S* s, const Basis<T>& basis, int count, Wide<T>* h,
                              Wide<T>* again) {
        return orthogonalise_together(solve, s, basis, count, h, again);
    }
};

}  // namespace spmvgpu::gpu
