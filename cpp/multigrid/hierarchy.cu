// Compiled without contraction of products and sums, as on the CPU: see CMakeLists.txt.
#include "gpu/cuda/run.cuh"
#include "multigrid/between_pieces.hpp"

namespace spmvgpu {

SPMVGPU_RUN_ON_GPU(multigrid::MarkedNodes)

#define INSTANTIATE(T)                                  \
    SPMVGPU_RUN_ON_GPU(multigrid::ConstantsOfNodes<T>)  \
    SPMVGPU_RUN_ON_GPU(multigrid::Inspect<T>)           \
    SPMVGPU_RUN_ON_GPU(multigrid::IsNearlyHermitian<T>) \
    SPMVGPU_RUN_ON_GPU(multigrid::Coarsen<T>)           \
    SPMVGPU_RUN_ON_GPU(multigrid::TentativeMatrix<T>)   \
    SPMVGPU_RUN_ON_GPU(multigrid::SmoothingFactors<T>)  \
    SPMVGPU_RUN_ON_GPU(multigrid::LargestOfScaled<T>)   \
    SPMVGPU_RUN_ON_GPU(multigrid::FindBetween<T>)       \
    SPMVGPU_RUN_ON_GPU(multigrid::TimesBetween<T>)      \
    SPMVGPU_RUN_ON_GPU(multigrid::RowsNearOthers<T>)    \
    SPMVGPU_RUN_ON_GPU(multigrid::CoupleBetween<T>)     \
    SPMVGPU_RUN_ON_GPU(multigrid::Renew<T>)             \
    SPMVGPU_RUN_ON_GPU(multigrid::SparseProduct<T>)
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
