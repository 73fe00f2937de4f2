#include <algorithm>
#include <numeric>

#include "core/host_vector.hpp"
#include "core/interrupt.hpp"
#include "core/parallel.hpp"
#include "formats/dia/build.hpp"
#include "formats/dia/layout.hpp"
#include "formats/dia/model.hpp"
#include "formats/host_build.hpp"
#include "formats/row_products.hpp"

namespace spmvgpu {

namespace dia_choice {

// Slots are read in order without column indices, so a slot takes the share of an entry's time that its bytes are. A
// diagonal is read as a whole, entries or not.
std::optional<Promise> promise(const RowSample& sample) {
    if (!sample.has_few_diagonals) return {};
    const double slot_time = double(sample.item_bytes) / (sample.item_bytes + sizeof(index_t));
    return Promise{double(sample.diagonals) * sample.rows * slot_time / sample.csr_time(),
                   "the entries of the sampled rows lie on " + std::to_string(sample.diagonals) +
                       " diagonals, which have no column indices",
                   Promise::kWorthwhile * sample.csr_time() / slot_time};
}

}  // namespace dia_choice

SPMVGPU_BUILD_ON_HOST(Dia)

namespace {

// Calls visit(row, d) for every entry, within a row in the order of the columns.
template <class T, class Visit>
void for_each_entry(const Dia<T>& dia, Visit visit) {
    InterruptTimer timer;
    for (std::int64_t first = 0; first < dia.rows; first += kRowsTogether) {
        const std::int64_t last = std::min<std::int64_t>(dia.rows, first + kRowsTogether);
        for (index_t d = 0; d < dia.diagonals(); ++d) {
            const T* const values = dia.values.data() + d * dia.pitch;
            for (std::int64_t row = first; row < last; ++row) {
                if (Dia<T>::bits(values[row]) != dia.padding) visit(row, d);
            }
            timer.work(last - first);
        }
    }
}

}  // namespace

template <class T>
CsrMatrix<T> Dia<T>::to_csr() const {
    auto csr = CsrMatrix<T>::allocate(rows, cols, nnz);
    std::fill(csr.row_offsets.begin(), csr.row_offsets.end(), 0);
    for_each_entry(*this, [&](std::int64_t row, index_t) { ++csr.row_offsets[row + 1]; });
    std::partial_sum(csr.row_offsets.begin(), csr.row_offsets.end(), csr.row_offsets.begin());
    HostVector<index_t> next(csr.row_offsets.begin(), csr.row_offsets.end() - 1);
    for_each_entry(*this, [&](std::int64_t row, index_t d) {
        const index_t position = next[row]++;
        csr.col_indices[position] = static_cast<index_t>(row + offsets[d]);
        csr.values[position] = values[d * pitch + row];
    });
    return csr;
}

namespace {

// Calls visit(values, begin, end, offset) for every diagonal, where [begin, end) are the rows of [first, last) in which
// it is inside the matrix, and `values` points to the value of row 0.
template <class T, class Visit>
void for_each_diagonal(const Dia<T>& dia, std::int64_t first, std::int64_t last, const Visit& visit) {
    for (index_t d = 0; d < dia.diagonals(); ++d) {
        const std::int64_t offset = dia.offsets[d];
        const std::int64_t begin = std::max(first, -offset), end = std::min(last, dia.cols - offset);
        if (begin < end) visit(dia.values.data() + d * dia.pitch, begin, end, offset);
    }
}

// Calls visit(first, last) for blocks of neighbouring rows, on several threads.
template <class T, class Visit>
void for_each_block(const Dia<T>& dia, index_t block_rows, const Visit& visit) {
    const index_t blocks = dia.rows / block_rows + (dia.rows % block_rows != 0);
    parallel_for(blocks, static_cast<std::int64_t>(dia.values.size()) + dia.rows, [&](index_t block) {
        const std::int64_t first = std::int64_t(block) * block_rows;
        visit(first, std::min<std::int64_t>(dia.rows, first + block_rows));
    });
}

template <class T>
SPMVGPU_SIMD_CLONES static void sum_block(const Dia<T>& dia, std::int64_t first, std::int64_t last, const T* x,
                                          T* sums) {
    const auto padding = dia.padding;
    for_each_diagonal(dia, first, last,
                      [&](const T* values, std::int64_t begin, std::int64_t end, std::int64_t offset) {
#pragma omp simd
                          for (std::int64_t i = begin; i < end; ++i) {
                              sums[i - first] += Dia<T>::unless_padding(values[i] * x[i + offset], values[i], padding);
                          }
                      });
}

constexpr index_t kPanelRows = 64;  // rows that are processed together if each has several sums

template <class T>
SPMVGPU_SIMD_CLONES static void multiply_block(const Dia<T>& dia, std::int64_t first, std::int64_t last,
                                               Product<T> product) {
    for_column_groups<kPanelColumns<T>>(0, product.columns, [&]<int kColumns>(index_t c) {
        T sums[kPanelRows][kColumns] = {};
        for_each_diagonal(dia, first, last,
                          [&](const T* values, std::int64_t begin, std::int64_t end, std::int64_t offset) {
                              for (std::int64_t i = begin; i < end; ++i) {
                                  if (Dia<T>::bits(values[i]) == dia.padding) continue;
                                  const T* const row = product.x + (i + offset) * product.x_strides.row + c;
#pragma omp simd
                                  for (int j = 0; j < kColumns; ++j) sums[i - first][j] += values[i] * row[j];
                              }
                          });
        for (std::int64_t i = first; i < last; ++i)
            std::copy_n(sums[i - first], kColumns, product.y + i * product.y_strides.row + c);
    });
}

}  // namespace

template <class T>
void Dia<T>::spmv(const Product<T>& product) const {
    for_each_block(*this, rows_of_block(rows), [&](std::int64_t first, std::int64_t last) {
        T sums[kRowsTogether] = {};
        sum_block(*this, first, last, product.x, sums);
        for (std::int64_t row = first; row < last; ++row) {
            store_row(product, static_cast<index_t>(row), sums[row - first]);
        }
    });
}

template <class T>
void Dia<T>::multiply_panel(const Product<T>& product) const {
    for_each_block(*this, kPanelRows,
                   [&](std::int64_t first, std::int64_t last) { multiply_block(*this, first, last, product); });
}

#define INSTANTIATE(T)      \
    template struct Dia<T>; \
    SPMVGPU_NEW_VALUES_ON_HOST(Dia, T)
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
