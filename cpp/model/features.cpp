#include "model/features.hpp"

#include "model/feature_passes.hpp"
#include "passes/host_passes.hpp"

namespace spmvgpu {

Features extract_features(const AnyCsr& csr) {
    HostPasses passes;
    return feature_passes::extract(passes, csr);
}

}  // namespace spmvgpu
