// Built on a GPU: csr.
#include "cuda/build.cuh"
#include "formats/csr_build.hpp"

namespace spmvgpu {

#define INSTANTIATE(T) SPMVGPU_BUILD_ON_GPU(Csr, T)
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
