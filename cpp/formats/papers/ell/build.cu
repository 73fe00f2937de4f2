#include "formats/gpu_build.cuh"
#include "formats/papers/ell/build.hpp"

namespace spmvgpu {

#define INSTANTIATE(T)                     \
    SPMVGPU_BUILD_ON_GPU(Ellpack, T)       \
    SPMVGPU_BUILD_ON_GPU(EllpackR, T)      \
    SPMVGPU_BUILD_ON_GPU(EllrT, T)         \
    SPMVGPU_NEW_VALUES_ON_GPU(Ellpack, T)  \
    SPMVGPU_NEW_VALUES_ON_GPU(EllpackR, T) \
    SPMVGPU_NEW_VALUES_ON_GPU(EllrT, T)
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
