// Features of a matrix for the performance model. Row lengths are read in full, columns and values at samples that are
// spread evenly, so the cost is a small fraction of a conversion, and the same matrix always has the same features.
#pragma once

#include "formats/features.hpp"

namespace spmvgpu {

// The arrays are in host memory.
Features extract_features(const AnyCsr& csr);

// The arrays are on a GPU, which computes the features: features.cu, in a build with CUDA.
Features extract_features_on_gpu(const AnyCsr& csr, int ordinal);

}  // namespace spmvgpu
