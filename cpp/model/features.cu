#include "cuda/passes.cuh"
#include "model/feature_passes.hpp"

namespace spmvgpu {

Features extract_features_on_gpu(index_t rows, index_t cols, index_t nnz, const index_t* row_offsets,
                                 const index_t* col_indices, int item_bytes, int ordinal) {
    cuda::CudaPasses passes(ordinal);
    return feature_passes::extract(passes, rows, cols, nnz, row_offsets, col_indices, item_bytes);
}

}  // namespace spmvgpu
