#include "formats/gpu_build.cuh"
#include "formats/papers/hyb/build.hpp"

namespace spmvgpu {

#define INSTANTIATE(T)           \
    SPMVGPU_BUILD_ON_GPU(Hyb, T) \
    SPMVGPU_NEW_VALUES_ON_GPU(Hyb, T)
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
