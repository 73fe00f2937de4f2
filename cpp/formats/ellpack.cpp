#include "formats/ellpack.hpp"

namespace spmvgpu {

template <class T>
typename Ellpack<T>::Plan Ellpack<T>::plan(const CsrMatrix<T>& csr, const Tuning& tuning, const Target& target) {
    const EllShape shape = fit_shape(csr.rows, csr.row_offsets, 1);
    return {tuning, EllSlots<T>::cost(kName, shape, csr, tuning.max_padding, 0, target), shape};
}

template <class T>
Ellpack<T> Ellpack<T>::from_csr(const CsrMatrix<T>& csr, const Plan& plan) {
    return {csr.rows, csr.cols, csr.nnz, EllSlots<T>::from_csr(csr, plan.shape), plan.tuning};
}

template <class T>
CsrMatrix<T> Ellpack<T>::to_csr() const {
    return slots.to_csr(cols, nnz);
}

template <class T>
void Ellpack<T>::spmv(const Product<T>& product) const {
    slots.spmv(nullptr, product);
}

template <class T>
void Ellpack<T>::multiply_panel(const Product<T>& product) const {
    slots.multiply_panel(nullptr, product);
}

#define INSTANTIATE(T) template struct Ellpack<T>;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)

}  // namespace spmvgpu
