#include "solvers/engines/cuda.cuh"

namespace spmvgpu::cuda {

SPMVGPU_SOLVERS_OF(float)
SPMVGPU_SOLVERS_OF(double)

}  // namespace spmvgpu::cuda
