#include "solvers/on_several_gpus.cuh"

namespace spmvgpu::gpu {

SPMVGPU_FOR_COMPLEX_TYPES(SPMVGPU_SOLVE_ON_GPUS)

}  // namespace spmvgpu::gpu
