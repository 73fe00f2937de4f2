#include "solvers/on_one_gpu.cuh"

namespace spmvgpu::gpu {

SPMVGPU_FOR_COMPLEX_TYPES(SPMVGPU_SOLVE_ON_GPU)

}  // namespace spmvgpu::gpu
