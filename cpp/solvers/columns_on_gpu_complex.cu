#include "solvers/columns_on_gpu.cuh"

namespace spmvgpu::gpu {

SPMVGPU_FOR_COMPLEX_TYPES(SPMVGPU_SOLVE_COLUMNS)

}  // namespace spmvgpu::gpu
