// Samples of rows, in a fraction of the time of a product.
#pragma once

#include "core/csr_matrix.hpp"
#include "formats/row_sample.hpp"

namespace spmvgpu {

// The matrix is in host memory. One with too few rows for a run has no sample: all shares are 0.
template <class T>
RowSample sample_rows(const CsrMatrix<T>& csr);

}  // namespace spmvgpu
