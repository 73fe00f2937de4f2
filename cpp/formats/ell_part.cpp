#include "formats/ell_part.hpp"

#include <algorithm>

#include "core/parallel.hpp"
#include "formats/row_products.hpp"

namespace spmvgpu {

template <class T>
EllPart<T> EllPart<T>::from_csr(const Csr<T>& matrix) {
    EllPart ell;
    ell.rows = matrix.rows;
    ell.cols = matrix.cols;
    ell.nnz = matrix.nnz;
    const auto& row_offsets = matrix.row_offsets;
    for (index_t row = 0; row < ell.rows; ++row)
        ell.width = std::max(ell.width, row_offsets[row + 1] - row_offsets[row]);
    if (ell.width > 0) ell.pitch = static_cast<index_t>(ell_pitch(ell.rows));
    const auto slots = static_cast<std::size_t>(ell.width) * ell.pitch;
    ell.col_indices = Array<index_t>(slots);
    ell.values = Array<T>(slots);
#pragma omp parallel for schedule(static)
    for (index_t column = 0; column < ell.width; ++column) {
        for (index_t row = 0; row < ell.pitch; ++row) {
            const index_t slot = column * ell.pitch + row;
            const bool stored = row < ell.rows && column < row_offsets[row + 1] - row_offsets[row];
            ell.col_indices[slot] = stored ? matrix.col_indices[row_offsets[row] + column] : -1;
            ell.values[slot] = stored ? matrix.values[row_offsets[row] + column] : T(0);
        }
    }
    return ell;
}

template <class T>
Csr<T> EllPart<T>::to_csr() const {
    Csr<T> csr;
    csr.rows = rows;
    csr.cols = cols;
    csr.nnz = nnz;
    csr.row_offsets = Array<index_t>(rows + std::size_t(1));
    csr.col_indices = Array<index_t>(nnz);
    csr.values = Array<T>(nnz);
    index_t end = 0;
    for (index_t row = 0; row < rows; ++row) {
        csr.row_offsets[row] = end;
        for (index_t column = 0; column < width; ++column) {
            const index_t slot = column * pitch + row;
            if (col_indices[slot] < 0) break;
            csr.col_indices[end] = col_indices[slot];
            csr.values[end++] = values[slot];
        }
    }
    csr.row_offsets[rows] = end;
    return csr;
}

template <class T>
void EllPart<T>::spmv(const Product<T>& product) const {
    const int threads = threads_for(std::int64_t(rows) + col_indices.size());
#pragma omp parallel for num_threads(threads) schedule(static)
    for (index_t row = 0; row < rows; ++row) {
        T sum = 0;
        for (index_t column = 0; column < width; ++column) {
            const index_t slot = column * pitch + row, col = col_indices[slot];
            if (col < 0) break;  // the entries of a row come first
            sum += values[slot] * product.x[col];
        }
        product.y[row] = scaled(sum, product, row);
    }
}

template struct EllPart<float>;
template struct EllPart<double>;

}  // namespace spmvgpu
