#include "core/value_types.hpp"
#include "solvers/subspaces/exponential_steps.hpp"
#include "solvers/subspaces/place.cuh"

namespace spmvgpu::gpu {

template <class T>
std::unique_ptr<Exponential<T>> make_exponential(std::shared_ptr<const LinearMap<T>> A, index_t n, index_t columns,
                                                 std::shared_ptr<SolverMemory> memory) {
    return std::make_unique<ExponentialOn<T, OnGpu>>(std::move(A), n, columns, std::move(memory));
}

#define INSTANTIATE(T)                                                                                               \
    template std::unique_ptr<Exponential<T>> make_exponential(std::shared_ptr<const LinearMap<T>>, index_t, index_t, \
                                                              std::shared_ptr<SolverMemory>);
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu::gpu
