#include "formats/ellpack_r.hpp"

namespace spmvgpu {

template <class T>
typename EllpackR<T>::Plan EllpackR<T>::plan(const CsrMatrix<T>& csr, const Tuning& tuning, const Target& target) {
    const EllShape shape = fit_shape(csr.rows, csr.row_offsets, 1);
    const std::size_t lengths = csr.rows * sizeof(index_t);
    return {tuning, EllSlots<T>::cost(kName, shape, csr, tuning.max_padding, lengths, target), shape};
}

template <class T>
EllpackR<T> EllpackR<T>::from_csr(const CsrMatrix<T>& csr, const Plan& plan) {
    return {
        csr.rows,   csr.cols, csr.nnz, Ellpack<T>::from_csr(csr, plan), count_row_lengths(csr.rows, csr.row_offsets),
        plan.tuning};
}

template <class T>
void EllpackR<T>::spmv(const Product<T>& product) const {
    ell.slots.spmv(row_lengths.data(), product);
}

template <class T>
void EllpackR<T>::multiply_panel(const Product<T>& product) const {
    ell.slots.multiply_panel(row_lengths.data(), product);
}

#define INSTANTIATE(T) template struct EllpackR<T>;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)

}  // namespace spmvgpu
