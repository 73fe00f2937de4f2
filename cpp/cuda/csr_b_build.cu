// Built on a GPU: csr_b.
#include "cuda/build.cuh"
#include "formats/csr_b_build.hpp"

namespace spmvgpu {

#define INSTANTIATE(T) SPMVGPU_BUILD_ON_GPU(CsrB, T)
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
