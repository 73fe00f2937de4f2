#include "formats/host_build.hpp"
#include "formats/panel_products.hpp"
#include "formats/papers/csr_b/build.hpp"
#include "formats/papers/csr_b/layout.hpp"
#include "formats/row_products.hpp"

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

template <class T>
void CsrB<T>::spmv(const Product<T>& product) const {
    spmv_by_rows_and_nonzeros(rows, row_offsets.data(), product, [this](index_t begin, index_t end, const T* x) {
        return sum_products(values.data(), begin, end, [&](index_t k) { return x[col_indices[k]]; });
    });
}

template <class T>
void CsrB<T>::multiply_panel(const Product<T>& product) const {
    multiply_panel_by_rows(rows, row_offsets.data(), values.data(), col_indices.data(), product);
}

#define INSTANTIATE(T) template struct CsrB<T>;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
