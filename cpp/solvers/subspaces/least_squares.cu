#include "core/value_types.hpp"
#include "solvers/subspaces/least_squares_steps.hpp"
#include "solvers/subspaces/place.cuh"

namespace spmvgpu::gpu {

template <class T>
std::unique_ptr<LeastSquares<T>> make_least_squares(std::shared_ptr<const LinearMap<T>> A,
                                                    std::shared_ptr<const LinearMap<T>> adjoint, index_t rows,
                                                    index_t cols, std::shared_ptr<SolverMemory> memory,
                                                    RankSums ranks) {
    const auto make = [&]<class Place>() -> std::unique_ptr<LeastSquares<T>> {
        return std::make_unique<LeastSquaresOn<T, Place>>(std::move(A), std::move(adjoint), rows, cols,
                                                          std::move(memory), std::move(ranks));
    };
    return ranks ? make.template operator()<OnGpuOfRank>() : make.template operator()<OnGpu>();
}

#define INSTANTIATE(T)                                                                                         \
    template std::unique_ptr<LeastSquares<T>> make_least_squares(std::shared_ptr<const LinearMap<T>>,          \
                                                                 std::shared_ptr<const LinearMap<T>>, index_t, \
                                                                 index_t, std::shared_ptr<SolverMemory>, RankSums);
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu::gpu
