#include "solvers/subspaces/least_squares.hpp"

#include "solvers/subspaces/least_squares_steps.hpp"
#include "solvers/subspaces/place.hpp"

namespace spmvgpu {

template <class T>
std::unique_ptr<LeastSquares<T>> make_least_squares(std::shared_ptr<const LinearMap<T>> A,
                                                    std::shared_ptr<const LinearMap<T>> adjoint, index_t rows,
                                                    index_t cols, std::shared_ptr<SolverMemory> memory,
                                                    RankSums ranks) {
#ifdef SPMVGPU_CUDA
    if (memory->device().is_gpu())
        return gpu::make_least_squares<T>(std::move(A), std::move(adjoint), rows, cols, std::move(memory),
                                          std::move(ranks));
#endif
    return std::make_unique<LeastSquaresOn<T, OnHost>>(std::move(A), std::move(adjoint), rows, cols, std::move(memory),
                                                       std::move(ranks));
}

#define INSTANTIATE(T)                                                                                         \
    template std::unique_ptr<LeastSquares<T>> make_least_squares(std::shared_ptr<const LinearMap<T>>,          \
                                                                 std::shared_ptr<const LinearMap<T>>, index_t, \
                                                                 index_t, std::shared_ptr<SolverMemory>, RankSums);
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
