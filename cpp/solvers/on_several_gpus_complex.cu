#include "solvers/on_several_gpus.cuh"

namespace spmvgpu::cuda {

SPMVGPU_SOLVE_ON_GPUS(Complex<float>)
SPMVGPU_SOLVE_ON_GPUS(Complex<double>)

}  // namespace spmvgpu::cuda
