#include "gpu/cuda/passes.cuh"
#include "formats/feature_passes.hpp"

namespace spmvgpu {

Features extract_features_on_gpu(const AnyCsr& csr, int ordinal) {
    gpu::CudaPasses passes(ordinal);
    return feature_passes::extract(passes, csr);
}

}  // namespace spmvgpu
