#include <algorithm>

#include "core/interrupt.hpp"
#include "core/parallel.hpp"
#include "formats/coo/build.hpp"
#include "formats/coo/layout.hpp"
#include "formats/host_build.hpp"
#include "formats/row_products.hpp"

namespace spmvgpu {

int choose_strip(index_t nnz, int processors) {
    // Long strips amortise the carries; short ones occupy all warp slots of a device with a small matrix.
    constexpr int kWarpsPerProcessor = 32;
    int strip = 512;
    while (strip > 64 && nnz / strip < kWarpsPerProcessor * processors) strip /= 2;
    return strip;
}

std::vector<Options> CooTuning::candidates() {
    std::vector<Options> list;
    for (std::int64_t strip : {512, 256, 128, 64, 1024}) list.push_back({{"strip", strip}});
    return list;
}

SPMVGPU_BUILD_ON_HOST(Coo)

template <class T>
CsrMatrix<T> Coo<T>::to_csr() const {
    CsrMatrix<T> csr{rows, cols, nnz, Array<index_t>(rows + std::size_t(1)), col_indices, values};
    std::fill(csr.row_offsets.begin(), csr.row_offsets.end(), 0);
    InterruptTimer timer;
    for (index_t k = 0; k < nnz; ++k) {
        ++csr.row_offsets[row_indices[k] + 1];
        timer.work(1);
    }
    for (index_t row = 0; row < rows; ++row) csr.row_offsets[row + 1] += csr.row_offsets[row];
    return csr;
}

template <class T>
void Coo<T>::spmv(const Product<T>& product) const {
    parallel_for(rows, rows, [&](index_t row) {
        T& y = product.y[product.row_of_y(row)];
        y = product.beta == T(0) ? T(0) : scaled(product.beta, y);
    });

    // A piece adds whole rows to y itself. Its first row may belong to the piece before it as well, and is added after
    // all have finished.
    const std::int64_t pieces = piece_count(nnz);
    std::vector<T> first_row_sums(pieces, T(0));
    for_each_piece(pieces, [&](std::int64_t p) {
        const auto begin = static_cast<index_t>(part_begin(nnz, pieces, p));
        const auto end = static_cast<index_t>(part_begin(nnz, pieces, p + 1));
        for (index_t k = begin; k < end;) {
            const index_t row = row_indices[k];
            T sum = 0;
            for (; k < end && row_indices[k] == row; ++k) sum += values[k] * product.x[col_indices[k]];
            if (row == row_indices[begin]) {
                first_row_sums[p] = sum;
            } else {
                add_to_row(product, row, sum);
            }
        }
    });
    for (std::int64_t p = 0; p < pieces && nnz > 0; ++p) {
        add_to_row(product, row_indices[part_begin(nnz, pieces, p)], first_row_sums[p]);
    }
}

namespace {

// y += A * x for the entries [begin, end), except for the row of the first one, whose sum goes to first_row_sums. The
// function is static because one with clones cannot be merged between object files.
template <class T>
SPMVGPU_SIMD_CLONES static void add_entries(const Coo<T>& coo, Product<T> product, index_t begin, index_t end,
                                            T* first_row_sums) {
    for (index_t k = begin, row_end = begin; k < end; k = row_end) {
        const index_t row = coo.row_indices[k];
        while (row_end < end && coo.row_indices[row_end] == row) ++row_end;
        T* const to = row == coo.row_indices[begin] ? first_row_sums : product.y + row * product.y_strides.row;
        for_column_groups<kPanelColumns<T>>(0, product.columns, [&]<int kColumns>(index_t c) {
            T sums[kColumns] = {};
            for (index_t j = k; j < row_end; ++j) {
                const T value = coo.values[j];
                const T* const x = product.x + coo.col_indices[j] * product.x_strides.row + c;
#pragma omp simd
                for (int i = 0; i < kColumns; ++i) sums[i] += value * x[i];
            }
            for (int i = 0; i < kColumns; ++i) to[c + i] += sums[i];
        });
    }
}

}  // namespace

template <class T>
void Coo<T>::multiply_panel(const Product<T>& product) const {
    parallel_for(rows, std::int64_t(rows) * product.columns,
                 [&](index_t row) { std::fill_n(product.y + row * product.y_strides.row, product.columns, T(0)); });
    add_panel(product);
}

template <class T>
void Coo<T>::add_panel(const Product<T>& product) const {
    if (nnz == 0) return;
    const std::size_t columns = product.columns;
    const std::int64_t pieces = piece_count(nnz);
    std::vector<T> first_row_sums(pieces * columns, T(0));
    for_each_piece(pieces, [&](std::int64_t p) {
        add_entries(*this, product, static_cast<index_t>(part_begin(nnz, pieces, p)),
                    static_cast<index_t>(part_begin(nnz, pieces, p + 1)), first_row_sums.data() + p * columns);
    });
    for (std::int64_t p = 0; p < pieces; ++p) {
        T* const y = product.y + row_indices[part_begin(nnz, pieces, p)] * product.y_strides.row;
        for (std::size_t c = 0; c < columns; ++c) y[c] += first_row_sums[p * columns + c];
    }
}

#define INSTANTIATE(T) template struct Coo<T>;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
