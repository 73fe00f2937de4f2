#include "formats/csr_m.hpp"

#include "core/parallel.hpp"
#include "formats/panel_products.hpp"
#include "formats/row_products.hpp"

namespace spmvgpu {

std::vector<Options> CsrMTuning::candidates() {
    using namespace std::string_literals;
    return {{{"kernel", "warp"s}}, {{"kernel", "half_warp"s}}};
}

template <class T>
Estimate CsrM<T>::estimate(const Csr<T>& matrix, const Tuning& tuning, const Target& target) {
    const bool only_values = target.device.is_cuda() && tuning.gather == Gather::kHost;
    const std::size_t gathered = only_values ? 0 : sizeof(index_t) + sizeof(T);
    return {matrix.nnz * (sizeof(T) + gathered) + (matrix.rows + std::size_t(1)) * sizeof(index_t), 1.0};
}

template <class T>
CsrM<T> CsrM<T>::from_csr(const Csr<T>& matrix, const Tuning& tuning, const Target& target) {
    CsrM csr_m;
    csr_m.rows = matrix.rows;
    csr_m.cols = matrix.cols;
    csr_m.nnz = matrix.nnz;
    csr_m.tuning = tuning;
    csr_m.row_offsets = matrix.row_offsets;
    csr_m.values = matrix.values;
    csr_m.indices_stay_on_host = target.device.is_cuda() && tuning.gather == Gather::kHost;
    // Nobody else makes the copy of our own that outlives the caller's arrays.
    csr_m.col_indices = csr_m.indices_stay_on_host ? matrix.col_indices.to({}) : matrix.col_indices;
    return csr_m;
}

template <class T>
Csr<T> CsrM<T>::to_csr() const {
    Csr<T> csr;
    csr.rows = rows;
    csr.cols = cols;
    csr.nnz = nnz;
    csr.row_offsets = row_offsets;
    csr.col_indices = col_indices;
    csr.values = values;
    return csr;
}

template <class T>
void CsrM<T>::gather(const T* x, T* col_x, index_t begin, index_t end) const {
    for (index_t k = begin; k < end; ++k) col_x[k - begin] = x[col_indices[k]];
}

template <class T>
void CsrM<T>::spmv(const Product<T>& product) const {
    T* const col_x = static_cast<T*>(product.scratch);
    if (!product.gathered) {
        parallel_ranges(nnz, nnz, [&](std::int64_t begin, std::int64_t end) {
            gather(product.x, col_x + begin, static_cast<index_t>(begin), static_cast<index_t>(end));
        });
    }
    spmv_by_rows_and_nonzeros(rows, row_offsets.data(), product, [&](index_t begin, index_t end, const T*) {
        return sum_products(values.data(), begin, end, [&](index_t k) { return col_x[k]; });
    });
}

template <class T>
void CsrM<T>::multiply_panel(const PanelProduct<T>& product) const {
    multiply_panel_by_rows(rows, row_offsets.data(), values.data(), col_indices.data(), product);
}

template struct CsrM<float>;
template struct CsrM<double>;

}  // namespace spmvgpu
