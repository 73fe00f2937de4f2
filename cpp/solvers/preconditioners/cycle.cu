#include "core/value_types.hpp"
#include "solvers/engines/cuda_columns.cuh"
#include "solvers/preconditioners/cycle_steps.hpp"

namespace spmvgpu::gpu {

template <class T>
void run_cycle(const CycleMap<T>& cycle, std::size_t first, int ordinal, const T* b, T* x, index_t columns,
               Stream stream) {
    const DeviceGuard guard(ordinal);
    CudaColumns queue(ordinal, stream, nullptr, {columns});
    WholeGrids(queue, cycle).run(first, b, x);
}

#define INSTANTIATE(T) template void run_cycle(const CycleMap<T>&, std::size_t, int, const T*, T*, index_t, Stream);
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu::gpu
