#include "formats/bsell/build.hpp"
#include "formats/gpu_build.cuh"

namespace spmvgpu {

#define INSTANTIATE(T)             \
    SPMVGPU_BUILD_ON_GPU(Bsell, T) \
    SPMVGPU_NEW_VALUES_ON_GPU(Bsell, T)
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
