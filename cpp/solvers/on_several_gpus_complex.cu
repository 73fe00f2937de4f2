#include "solvers/on_several_gpus.cuh"

namespace spmvgpu::gpu {

SPMVGPU_SOLVE_ON_GPUS(Complex<float>)
SPMVGPU_SOLVE_ON_GPUS(Complex<double>)

}  // namespace spmvgpu::gpu
