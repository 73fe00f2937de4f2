#include "model/features.hpp"

#include "model/feature_passes.hpp"
#include "passes/host_passes.hpp"

namespace spmvgpu {

Features extract_features(index_t rows, index_t cols, const index_t* row_offsets, const index_t* col_indices,
                          int item_bytes) {
    HostPasses passes;
    return feature_passes::extract(passes, rows, cols, row_offsets[rows], row_offsets, col_indices, item_bytes);
}

}  // namespace spmvgpu
