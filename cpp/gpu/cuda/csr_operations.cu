#include "core/passes/csr_operations.hpp"
#include "core/passes/random.hpp"
#include "gpu/cuda/run.cuh"

namespace spmvgpu {

SPMVGPU_RUN_ON_GPU(LongestRow)
SPMVGPU_RUN_ON_GPU(IsCanonical)
SPMVGPU_RUN_ON_GPU(ReachOfColumns)
SPMVGPU_RUN_ON_GPU(Clustering)
SPMVGPU_RUN_ON_GPU(TakeEvery)
SPMVGPU_RUN_ON_GPU(FirstAtLeast<index_t>)
SPMVGPU_RUN_ON_GPU(FirstAtLeast<std::int64_t>)
SPMVGPU_RUN_ON_GPU(OffsetsLess)
SPMVGPU_RUN_ON_GPU(RowWindow)
#define INSTANTIATE(T)                       \
    SPMVGPU_RUN_ON_GPU(DrawVector<T>)        \
    SPMVGPU_RUN_ON_GPU(Diagonal<T>)          \
    SPMVGPU_RUN_ON_GPU(ScaleValues<T>)       \
    SPMVGPU_RUN_ON_GPU(InvertDiagonal<T>)    \
    SPMVGPU_RUN_ON_GPU(RowNorm<T>)           \
    SPMVGPU_RUN_ON_GPU(PlaceValues<T>)       \
    SPMVGPU_RUN_ON_GPU(Transpose<T>)         \
    SPMVGPU_RUN_ON_GPU(ReorderByClusters<T>) \
    SPMVGPU_RUN_ON_GPU(EntriesBefore<T>)
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

#define INSTANTIATE(From, To) SPMVGPU_RUN_ON_GPU(ConvertValues<From, To>)
SPMVGPU_FOR_CONVERSIONS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
