#include "solvers/columns_on_gpu.cuh"

namespace spmvgpu::gpu {

SPMVGPU_SOLVE_COLUMNS(Complex<float>)
SPMVGPU_SOLVE_COLUMNS(Complex<double>)

}  // namespace spmvgpu::gpu
