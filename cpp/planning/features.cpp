#include "planning/features.hpp"

#include "core/passes/host_passes.hpp"
#include "formats/feature_passes.hpp"

namespace spmvgpu {

Features extract_features(const AnyCsr& csr) {
    HostPasses passes;
    return feature_passes::extract(passes, csr);
}

}  // namespace spmvgpu
