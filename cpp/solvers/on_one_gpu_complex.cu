#include "solvers/on_one_gpu.cuh"

namespace spmvgpu::gpu {

SPMVGPU_SOLVE_ON_GPU(Complex<float>)
SPMVGPU_SOLVE_ON_GPU(Complex<double>)

}  // namespace spmvgpu::gpu
