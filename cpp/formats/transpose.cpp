#include "formats/transpose.hpp"

#include <algorithm>
#include <numeric>

#include "core/host_vector.hpp"
#include "core/interrupt.hpp"

namespace spmvgpu {

// A counting sort by column: as the rows go by in order, so do the columns of every row of the result.
template <class T>
Csr<T> transpose(const Csr<T>& matrix) {
    Csr<T> result;
    result.rows = matrix.cols;
    result.cols = matrix.rows;
    result.nnz = matrix.nnz;
    result.row_offsets = Array<index_t>(result.rows + std::size_t(1));
    result.col_indices = Array<index_t>(result.nnz);
    result.values = Array<T>(result.nnz);

    InterruptTimer timer;
    std::fill(result.row_offsets.begin(), result.row_offsets.end(), 0);
    for (index_t row = 0; row < matrix.rows; ++row) {
        const index_t begin = matrix.row_offsets[row], end = matrix.row_offsets[row + 1];
        for (index_t k = begin; k < end; ++k) ++result.row_offsets[matrix.col_indices[k] + std::size_t(1)];
        timer.work(end - begin + 1);
    }
    std::partial_sum(result.row_offsets.begin(), result.row_offsets.end(), result.row_offsets.begin());
    check_interrupt();
    HostVector<index_t> next(result.row_offsets.begin(), result.row_offsets.end() - 1);
    for (index_t row = 0; row < matrix.rows; ++row) {
        const index_t begin = matrix.row_offsets[row], end = matrix.row_offsets[row + 1];
        for (index_t k = begin; k < end; ++k) {
            const index_t place = next[matrix.col_indices[k]]++;
            result.col_indices[place] = row;
            result.values[place] = matrix.values[k];
        }
        timer.work(end - begin + 1);
    }
    return result;
}

template Csr<float> transpose(const Csr<float>&);
template Csr<double> transpose(const Csr<double>&);

}  // namespace spmvgpu
