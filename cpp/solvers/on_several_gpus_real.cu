#include "solvers/on_several_gpus.cuh"

namespace spmvgpu::gpu {

SPMVGPU_SOLVE_ON_GPUS(float)
SPMVGPU_SOLVE_ON_GPUS(double)

}  // namespace spmvgpu::gpu
