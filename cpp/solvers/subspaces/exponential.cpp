#include "solvers/subspaces/exponential.hpp"

#include "solvers/subspaces/exponential_steps.hpp"
#include "solvers/subspaces/place.hpp"

namespace spmvgpu {

template <class T>
std::unique_ptr<Exponential<T>> make_exponential(std::shared_ptr<const LinearMap<T>> A, index_t n, index_t columns,
                                                 std::shared_ptr<SolverMemory> memory) {
#ifdef SPMVGPU_CUDA
    if (memory->device().is_gpu()) return gpu::make_exponential<T>(std::move(A), n, columns, std::move(memory));
#endif
    return std::make_unique<ExponentialOn<T, OnHost>>(std::move(A), n, columns, std::move(memory));
}

#define INSTANTIATE(T)                                                                                               \
    template std::unique_ptr<Exponential<T>> make_exponential(std::shared_ptr<const LinearMap<T>>, index_t, index_t, \
                                                              std::shared_ptr<SolverMemory>);
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
