// Built on a GPU: csr_m.
#include "cuda/build.cuh"
#include "formats/csr_m_build.hpp"

namespace spmvgpu {

#define INSTANTIATE(T) SPMVGPU_BUILD_ON_GPU(CsrM, T)
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
