#include "formats/ellpack_r.hpp"

namespace spmvgpu {

template <class T>
Estimate EllpackR<T>::estimate(const Csr<T>& matrix, const Tuning& tuning, const Target&) {
    const EllShape shape = fit_shape(matrix.rows, matrix.row_offsets, 1);
    return EllSlots<T>::estimate(kName, shape, matrix, tuning.max_padding, matrix.rows * sizeof(index_t));
}

template <class T>
EllpackR<T> EllpackR<T>::from_csr(const Csr<T>& matrix, const Tuning& tuning, const Target& target) {
    estimate(matrix, tuning, target);  // refuses in this format's name and with its bytes
    return {matrix.rows,
            matrix.cols,
            matrix.nnz,
            Ellpack<T>::from_csr(matrix, tuning, target),
            count_row_lengths(matrix.rows, matrix.row_offsets),
            tuning};
}

template <class T>
void EllpackR<T>::spmv(const Product<T>& product) const {
    ell.slots.spmv(row_lengths.data(), product);
}

template <class T>
void EllpackR<T>::multiply_panel(const PanelProduct<T>& product) const {
    ell.slots.multiply_panel(row_lengths.data(), product);
}

template struct EllpackR<float>;
template struct EllpackR<double>;

}  // namespace spmvgpu
