#include "solvers/on_one_gpu.cuh"

namespace spmvgpu::gpu {

SPMVGPU_SOLVE_ON_GPU(float)
SPMVGPU_SOLVE_ON_GPU(double)

}  // namespace spmvgpu::gpu
