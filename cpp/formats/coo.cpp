#include "formats/coo.hpp"

#include <algorithm>

#include "core/interrupt.hpp"
#include "core/parallel.hpp"
#include "formats/row_products.hpp"
#include "formats/spans.hpp"

namespace spmvgpu {

namespace {

int choose_strip(index_t nnz, int processors) {
    // Long strips amortise the carries; short ones keep all warp slots of a small matrix's device busy.
    constexpr int kWarpsPerProcessor = 32;
    int strip = 512;
    while (strip > 64 && nnz / strip < kWarpsPerProcessor * processors) strip /= 2;
    return strip;
}

}  // namespace

std::vector<Options> CooTuning::candidates() {
    std::vector<Options> list;
    for (std::int64_t strip : {512, 256, 128, 64, 1024}) list.push_back({{"strip", strip}});
    return list;
}

template <class T>
Estimate Coo<T>::estimate(const Csr<T>& matrix, const Tuning& tuning, const Target& target) {
    std::size_t bytes = matrix.nnz * (sizeof(T) + 2 * sizeof(index_t));
    if (target.device.is_cuda()) {
        const index_t nnz = matrix.nnz;
        const index_t strip = tuning.strip == 0 ? choose_strip(nnz, target.processors) : tuning.strip;
        const index_t strips = nnz / strip + (nnz % strip != 0);
        const auto row_of = [&](index_t nz) { return row_of_entry(matrix.row_offsets, nz); };
        const auto spans = find_spans(
            strips, [&](index_t s) { return row_of(s * strip); },
            [&](index_t s) { return row_of(s * strip + std::min(strip, nnz - s * strip) - 1); });
        bytes += spans.size() * sizeof(RowSpan) + (spans.empty() ? 0 : 2 * sizeof(T) * strips);
    }
    return {bytes, 1.0};
}

template <class T>
Coo<T> Coo<T>::from_csr(const Csr<T>& matrix, const Tuning& tuning, const Target& target) {
    Coo coo;
    coo.rows = matrix.rows;
    coo.cols = matrix.cols;
    coo.nnz = matrix.nnz;
    coo.tuning = tuning;
    if (tuning.strip == 0) coo.tuning.strip = choose_strip(coo.nnz, target.processors);
    coo.col_indices = matrix.col_indices;
    coo.values = matrix.values;
    coo.row_indices = Array<index_t>(coo.nnz);
    const auto empty = parallel_sum<index_t>(coo.rows, coo.nnz, [&](std::int64_t first, std::int64_t last) {
        index_t count = 0;
        for (auto row = static_cast<index_t>(first); row < last; ++row) {
            const index_t begin = matrix.row_offsets[row], end = matrix.row_offsets[row + 1];
            std::fill(coo.row_indices.begin() + begin, coo.row_indices.begin() + end, row);
            count += begin == end;
        }
        return count;
    });
    coo.has_empty_rows = empty > 0;
    if (target.device.is_cuda()) {
        const index_t strip = coo.tuning.strip, nnz = coo.nnz;
        coo.spans = Array<RowSpan>::from(find_spans(
            coo.strips(), [&](index_t s) { return coo.row_indices[s * strip]; },
            [&](index_t s) { return coo.row_indices[s * strip + std::min(strip, nnz - s * strip) - 1]; }));
    }
    return coo;
}

template <class T>
Csr<T> Coo<T>::to_csr() const {
    Csr<T> csr;
    csr.rows = rows;
    csr.cols = cols;
    csr.nnz = nnz;
    csr.col_indices = col_indices;
    csr.values = values;
    csr.row_offsets = Array<index_t>(rows + std::size_t(1));
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
        y = product.beta == T(0) ? T(0) : product.beta * y;
    });

    // A piece adds whole rows to y itself; its first row may belong to the piece before it as well, and is added after
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

// y += A * x for the entries [begin, end), but what they add to the row of the first of them goes to first_row_sums.
// Static, for a function with clones cannot be merged between object files.
template <class T>
SPMVGPU_SIMD_CLONES static void add_entries(const Coo<T>& coo, PanelProduct<T> product, index_t begin, index_t end,
                                            T* first_row_sums) {
    for (index_t k = begin, row_end = begin; k < end; k = row_end) {
        const index_t row = coo.row_indices[k];
        while (row_end < end && coo.row_indices[row_end] == row) ++row_end;
        T* const to = row == coo.row_indices[begin] ? first_row_sums : product.y + row * product.ldy;
        for_column_groups<kPanelColumns<T>>(0, product.columns, [&]<int kColumns>(index_t c) {
            T sums[kColumns] = {};
            for (index_t j = k; j < row_end; ++j) {
                const T value = coo.values[j];
                const T* const x = product.x + coo.col_indices[j] * product.ldx + c;
#pragma omp simd
                for (int i = 0; i < kColumns; ++i) sums[i] += value * x[i];
            }
            for (int i = 0; i < kColumns; ++i) to[c + i] += sums[i];
        });
    }
}

}  // namespace

template <class T>
void Coo<T>::multiply_panel(const PanelProduct<T>& product) const {
    parallel_for(rows, std::int64_t(rows) * product.columns,
                 [&](index_t row) { std::fill_n(product.y + row * product.ldy, product.columns, T(0)); });
    add_panel(product);
}

template <class T>
void Coo<T>::add_panel(const PanelProduct<T>& product) const {
    if (nnz == 0) return;
    const std::size_t columns = product.columns;
    const std::int64_t pieces = piece_count(nnz);  // as for one vector
    std::vector<T> first_row_sums(pieces * columns, T(0));
    for_each_piece(pieces, [&](std::int64_t p) {
        add_entries(*this, product, static_cast<index_t>(part_begin(nnz, pieces, p)),
                    static_cast<index_t>(part_begin(nnz, pieces, p + 1)), first_row_sums.data() + p * columns);
    });
    for (std::int64_t p = 0; p < pieces; ++p) {
        T* const y = product.y + row_indices[part_begin(nnz, pieces, p)] * product.ldy;
        for (std::size_t c = 0; c < columns; ++c) y[c] += first_row_sums[p * columns + c];
    }
}

template struct Coo<float>;
template struct Coo<double>;

}  // namespace spmvgpu
