#include "formats/gpu_build.cuh"
#include "formats/stencil/build.hpp"

namespace spmvgpu {

#define INSTANTIATE(T)               \
    SPMVGPU_BUILD_ON_GPU(Stencil, T) \
    SPMVGPU_NEW_VALUES_ON_GPU(Stencil, T)
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
