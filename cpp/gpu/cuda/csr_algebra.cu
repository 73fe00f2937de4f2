#include "core/passes/csr_algebra.hpp"
#include "gpu/cuda/run.cuh"

namespace spmvgpu {

SPMVGPU_RUN_ON_GPU(PlacedRows)
#define INSTANTIATE(T)                     \
    SPMVGPU_RUN_ON_GPU(ListedRows<T>)      \
    SPMVGPU_RUN_ON_GPU(SelectedEntries<T>) \
    SPMVGPU_RUN_ON_GPU(NonzeroEntries<T>)  \
    SPMVGPU_RUN_ON_GPU(StackedRows<T>)     \
    SPMVGPU_RUN_ON_GPU(Sum<T>)             \
    SPMVGPU_RUN_ON_GPU(ScaledRows<T>)      \
    SPMVGPU_RUN_ON_GPU(PositiveInverses<T>)
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
