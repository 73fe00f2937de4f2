#include "solvers/engines/cuda.cuh"

namespace spmvgpu::cuda {

SPMVGPU_SOLVERS_OF(Complex<float>)
SPMVGPU_SOLVERS_OF(Complex<double>)

}  // namespace spmvgpu::cuda
