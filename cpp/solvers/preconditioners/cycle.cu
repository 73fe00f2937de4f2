#include "core/value_types.hpp"
#include "solvers/engines/cuda_columns.cuh"
#include "solvers/preconditioners/cycle_steps.hpp"

namespace spmvgpu::gpu {

template <class T>
void run_cycle(const CycleMap<T>& cycle, int ordinal, const T* x, T* y, index_t columns, Stream stream) {
    const DeviceGuard guard(ordinal);
    CudaColumns queue(ordinal, stream, nullptr, {columns});
    spmvgpu::run_cycle(queue, cycle, 0, x, y);
}

#define INSTANTIATE(T) template void run_cycle(const CycleMap<T>&, int, const T*, T*, index_t, Stream);
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu::gpu
