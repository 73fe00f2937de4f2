#include "solvers/columns_on_gpu.cuh"

namespace spmvgpu::gpu {

SPMVGPU_SOLVE_COLUMNS(float)
SPMVGPU_SOLVE_COLUMNS(double)

}  // namespace spmvgpu::gpu
