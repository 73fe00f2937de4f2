// Built on a GPU: coo.
#include "cuda/build.cuh"
#include "formats/coo_build.hpp"

namespace spmvgpu {

#define INSTANTIATE(T) SPMVGPU_BUILD_ON_GPU(Coo, T)
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
