#include "formats/csr/layout.hpp"
#include "formats/host_build.hpp"
#include "formats/papers/csr_b/build.hpp"
#include "formats/papers/csr_b/layout.hpp"

namespace spmvgpu {

std::vector<Options> CsrBTuning::candidates() {
    std::vector<Options> list;
    for (std::int64_t fragment : {1024, 2048, 512}) {
        for (std::int64_t lanes : {16, 4, 1}) list.push_back({{"fragment", fragment}, {"lanes_per_row", lanes}});
    }
    return list;
}

SPMVGPU_BUILD_ON_HOST(CsrB)

template <class T>
CsrMatrix<T> CsrB<T>::to_csr() const {
    return {rows, cols, nnz, row_offsets, col_indices, values};
}

namespace {

// On the CPU the product is the one of csr, from the same arrays.
template <class T>
Csr<T> csr_of(const CsrB<T>& matrix) {
    Csr<T> csr;
    csr.rows = matrix.rows;
    csr.cols = matrix.cols;
    csr.nnz = matrix.nnz;
    csr.row_offsets = matrix.row_offsets;
    csr.col_indices = matrix.col_indices;
    csr.values = matrix.values;
    return csr;
}

}  // namespace

template <class T>
void CsrB<T>::spmv(const Product<T>& product) const {
    csr_of(*this).spmv(product);
}

template <class T>
void CsrB<T>::multiply_panel(const Product<T>& product) const {
    csr_of(*this).multiply_panel(product);
}

#define INSTANTIATE(T) template struct CsrB<T>;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
