#include "formats/feature_passes.hpp"
#include "gpu/cuda/passes.cuh"

namespace spmvgpu {

Features extract_features_on_gpu(const AnyCsr& csr, int ordinal) {
    gpu::CudaPasses passes(ordinal);
    return feature_passes::extract(passes, csr);
}

}  // namespace spmvgpu
