#include "solvers/engines/cuda_solve_in_pieces.cuh"

namespace spmvgpu::cuda {

SPMVGPU_SOLVERS_IN_PIECES_OF(float)
SPMVGPU_SOLVERS_IN_PIECES_OF(double)

}  // namespace spmvgpu::cuda
