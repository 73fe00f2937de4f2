#include "formats/csr/build.hpp"
#include "formats/gpu_build.cuh"

namespace spmvgpu {

#define INSTANTIATE(T) SPMVGPU_BUILD_ON_GPU(Csr, T)
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
