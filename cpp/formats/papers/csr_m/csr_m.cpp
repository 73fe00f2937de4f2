#include "core/parallel.hpp"
#include "formats/panel_products.hpp"
#include "formats/papers/csr_m/layout.hpp"
#include "formats/row_products.hpp"

namespace spmvgpu {

std::vector<Options> CsrMTuning::candidates() {
    using namespace std::string_literals;
    return {{{"kernel", "warp"s}}, {{"kernel", "half_warp"s}}};
}

template <class T>
CsrMPlan CsrM<T>::plan(const CsrMatrix<T>& csr, const Tuning& tuning, const Target& target) {
    CsrMPlan plan{tuning, {}, target.device.is_gpu() && tuning.gather == Gather::kHost};
    const std::size_t gathered = plan.indices_stay_on_host ? 0 : sizeof(index_t) + sizeof(T);
    plan.cost.bytes = csr.nnz * (sizeof(T) + gathered) + (csr.rows + std::size_t(1)) * sizeof(index_t);
    plan.cost.slots = plan.cost.entries = csr.nnz;
    if (!plan.indices_stay_on_host) plan.cost.gathers = csr.nnz;
    if (target.device.is_gpu()) plan.cost.launches = (plan.cost.gathers > 0) + (csr.rows > 0);
    return plan;
}

template <class T>
CsrM<T> CsrM<T>::from_csr(const CsrMatrix<T>& csr, const Plan& plan) {
    // No later step copies the caller's arrays, which this copy must outlive.
    const auto indices = plan.indices_stay_on_host ? csr.col_indices.to({}) : csr.col_indices;
    return {csr.rows, csr.cols, csr.nnz, plan.indices_stay_on_host, csr.row_offsets, indices, csr.values, plan.tuning};
}

template <class T>
CsrMatrix<T> CsrM<T>::to_csr() const {
    return {rows, cols, nnz, row_offsets, col_indices, values};
}

template <class T>
void CsrM<T>::gather(const T* x, T* col_x, index_t begin, index_t end) const {
    for (index_t k = begin; k < end; ++k) col_x[k - begin] = x[col_indices[k]];
}

template <class T>
void CsrM<T>::gather_x(const Product<T>& product) const {
    T* const col_x = static_cast<T*>(product.scratch);
    parallel_ranges(nnz, nnz, [&](std::int64_t begin, std::int64_t end) {
        gather(product.x, col_x + begin, static_cast<index_t>(begin), static_cast<index_t>(end));
    });
}

template <class T>
void CsrM<T>::spmv(const Product<T>& product) const {
    const T* const col_x = static_cast<const T*>(product.scratch);
    spmv_by_rows_and_nonzeros(rows, row_offsets.data(), product, [&](index_t begin, index_t end, const T*) {
        return sum_products(values.data(), begin, end, [&](index_t k) { return col_x[k]; });
    });
}

template <class T>
void CsrM<T>::multiply_panel(const Product<T>& product) const {
    multiply_panel_by_rows(rows, row_offsets.data(), values.data(), col_indices.data(), product);
}

#define INSTANTIATE(T) template struct CsrM<T>;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
