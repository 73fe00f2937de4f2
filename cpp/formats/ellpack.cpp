#include "formats/ellpack.hpp"

namespace spmvgpu {

template <class T>
Estimate Ellpack<T>::estimate(const Csr<T>& matrix, const Tuning& tuning, const Target&) {
    const EllShape shape = fit_shape(matrix.rows, matrix.row_offsets, 1);
    return EllSlots<T>::estimate(kName, shape, matrix, tuning.max_padding, 0);
}

template <class T>
Ellpack<T> Ellpack<T>::from_csr(const Csr<T>& matrix, const Tuning& tuning, const Target&) {
    const EllShape shape = fit_shape(matrix.rows, matrix.row_offsets, 1);
    EllSlots<T>::estimate(kName, shape, matrix, tuning.max_padding, 0);
    return {matrix.rows, matrix.cols, matrix.nnz, EllSlots<T>::from_csr(matrix, shape), tuning};
}

template <class T>
Csr<T> Ellpack<T>::to_csr() const {
    return slots.to_csr(cols, nnz);
}

template <class T>
void Ellpack<T>::spmv(const Product<T>& product) const {
    slots.spmv(nullptr, product);
}

template <class T>
void Ellpack<T>::multiply_panel(const PanelProduct<T>& product) const {
    slots.multiply_panel(nullptr, product);
}

template struct Ellpack<float>;
template struct Ellpack<double>;

}  // namespace spmvgpu
