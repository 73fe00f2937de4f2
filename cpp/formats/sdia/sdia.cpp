#include <algorithm>
#include <numeric>

#include "core/host_vector.hpp"
#include "core/parallel.hpp"
#include "formats/host_build.hpp"
#include "formats/row_products.hpp"
#include "formats/sdia/build.hpp"
#include "formats/sdia/layout.hpp"

namespace spmvgpu {

std::vector<Options> SdiaTuning::candidates() { return {{{"block_size", 128}}, {{"block_size", 256}}}; }

SPMVGPU_BUILD_ON_HOST(Sdia)

template <class T>
CsrMatrix<T> Sdia<T>::to_csr() const {
    const CsrMatrix<T> half = upper.to_csr();
    auto csr = CsrMatrix<T>::allocate(rows, cols, nnz);
    std::fill(csr.row_offsets.begin(), csr.row_offsets.end(), 0);
    // The rows of `upper` from `before` on are stored here.
    const auto is_here = [&](index_t row) { return row >= before && row - before < rows; };
    const auto for_each_entry = [&](const auto& visit) {
        for (index_t row = 0; row < half.rows; ++row) {
            for (index_t k = half.row_offsets[row]; k < half.row_offsets[row + 1]; ++k) {
                visit(row, half.col_indices[k], half.values[k]);
            }
        }
    };
    for_each_entry([&](index_t row, index_t col, T) {
        if (is_here(row)) ++csr.row_offsets[row - before + 1];
        if (col != row && is_here(col)) ++csr.row_offsets[col - before + 1];
    });
    std::partial_sum(csr.row_offsets.begin(), csr.row_offsets.end(), csr.row_offsets.begin());
    HostVector<index_t> next(csr.row_offsets.begin(), csr.row_offsets.end() - 1);
    const auto add = [&](index_t row, index_t col, T value) {
        if (!is_here(row)) return;
        index_t& place = next[row - before];
        csr.col_indices[place] = col + first_col;
        csr.values[place++] = value;
    };
    // Entries left of the diagonal come first, in the order of the rows of their mirror images.
    for_each_entry([&](index_t row, index_t col, T value) {
        if (col != row) add(col, row, mirror()(value));
    });
    for_each_entry(add);
    return csr;
}

namespace {

// The sums of rows [first, last) of `upper`, in the order of the columns.
template <class T>
SPMVGPU_SIMD_CLONES static void sum_block(const Sdia<T>& sdia, std::int64_t first, std::int64_t last, const T* x,
                                          T* sums) {
    const Dia<T>& upper = sdia.upper;
    const auto padding = upper.padding;
    const Mirror<T> mirror = sdia.mirror();
    const index_t diagonals = upper.diagonals();
    for (index_t d = diagonals; d-- > diagonals - sdia.mirrored();) {
        const std::int64_t offset = upper.offsets[d];
        const T* const values = upper.values.data() + d * upper.pitch - offset;
#pragma omp simd
        for (std::int64_t i = std::max(first, offset); i < last; ++i) {
            sums[i - first] += Dia<T>::unless_padding(mirror(values[i]) * x[i - offset], values[i], padding);
        }
    }
    for (index_t d = 0; d < diagonals; ++d) {
        const std::int64_t offset = upper.offsets[d], end = std::min<std::int64_t>(last, upper.cols - offset);
        const T* const values = upper.values.data() + d * upper.pitch;
#pragma omp simd
        for (std::int64_t i = first; i < end; ++i) {
            sums[i - first] += Dia<T>::unless_padding(values[i] * x[i + offset], values[i], padding);
        }
    }
}

}  // namespace

template <class T>
void Sdia<T>::spmv(const Product<T>& product) const {
    const index_t block_rows = rows_of_block(rows), blocks = rows / block_rows + (rows % block_rows != 0);
    parallel_for(blocks, 2 * static_cast<std::int64_t>(upper.values.size()) + rows, [&](index_t block) {
        const std::int64_t first = std::int64_t(block) * block_rows;
        const std::int64_t last = std::min<std::int64_t>(rows, first + block_rows);
        T sums[kRowsTogether] = {};
        sum_block(*this, first + before, last + before, product.x + first_col, sums);
        for (std::int64_t row = first; row < last; ++row) {
            store_row(product, static_cast<index_t>(row), sums[row - first]);
        }
    });
}

#define INSTANTIATE(T)       \
    template struct Sdia<T>; \
    SPMVGPU_NEW_VALUES_ON_HOST(Sdia, T)
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
