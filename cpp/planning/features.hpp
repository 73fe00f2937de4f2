// What the performance model wants to know about a matrix. Row lengths are read in full, columns and values at samples
// that are spread evenly; so it costs a small fraction of a conversion, and the same matrix always has the same
// features.
#pragma once

#include "formats/features.hpp"

namespace spmvgpu {

// Of arrays in host memory.
Features extract_features(const AnyCsr& csr);

// Of arrays on a GPU, where they are found: features.cu, in a build with CUDA.
Features extract_features_on_gpu(const AnyCsr& csr, int ordinal);

}  // namespace spmvgpu
