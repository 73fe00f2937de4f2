#include "formats/csr_b.hpp"

#include <algorithm>

#include "core/parallel.hpp"
#include "formats/panel_products.hpp"
#include "formats/row_products.hpp"
#include "formats/spans.hpp"

namespace spmvgpu {

namespace {

index_t count_fragments(index_t rows, index_t nnz, int fragment) {
    if (nnz == 0) return rows > 0 ? 1 : 0;  // somebody has to write the empty rows
    return nnz / fragment + (nnz % fragment != 0);
}

Array<RowBound> find_bounds(index_t rows, const Array<index_t>& row_offsets, int fragment) {
    const index_t nnz = row_offsets[rows];
    Array<RowBound> bounds(count_fragments(rows, nnz, fragment));
    if (nnz == 0) {
        std::fill(bounds.begin(), bounds.end(), RowBound{0, rows - 1});
        return bounds;
    }
    const auto row_of = [&](index_t nz) { return row_of_entry(row_offsets, nz); };
    const auto fragments = static_cast<index_t>(bounds.size());
    constexpr std::int64_t kNanosecondsPerSearch = 200;
    parallel_for(fragments, 2 * kNanosecondsPerSearch * fragments, [&](index_t f) {
        const index_t begin = f * fragment;
        bounds[f] = {row_of(begin), row_of(begin + std::min(fragment, nnz - begin) - 1)};
    });
    return bounds;
}

HostVector<RowSpan> spans_of(const Array<RowBound>& bounds) {
    return find_spans(
        static_cast<index_t>(bounds.size()), [&](index_t f) { return bounds[f].first; },
        [&](index_t f) { return bounds[f].last; });
}

}  // namespace

std::vector<Options> CsrBTuning::candidates() {
    std::vector<Options> list;
    for (std::int64_t fragment : {1024, 2048, 512}) {
        for (std::int64_t lanes : {16, 4, 1}) list.push_back({{"fragment", fragment}, {"lanes_per_row", lanes}});
    }
    return list;
}

template <class T>
Estimate CsrB<T>::estimate(const Csr<T>& matrix, const Tuning& tuning, const Target& target) {
    const std::size_t fragments = count_fragments(matrix.rows, matrix.nnz, tuning.fragment);
    std::size_t bytes = matrix.matrix_bytes() + fragments * sizeof(RowBound);
    if (target.device.is_cuda()) {
        const auto spans = spans_of(find_bounds(matrix.rows, matrix.row_offsets, tuning.fragment));
        bytes += spans.size() * sizeof(RowSpan) + (spans.empty() ? 0 : 2 * sizeof(T) * fragments);
    }
    return {bytes, 1.0};
}

template <class T>
CsrB<T> CsrB<T>::from_csr(const Csr<T>& matrix, const Tuning& tuning, const Target& target) {
    CsrB csr_b;
    csr_b.rows = matrix.rows;
    csr_b.cols = matrix.cols;
    csr_b.nnz = matrix.nnz;
    csr_b.tuning = tuning;
    csr_b.row_offsets = matrix.row_offsets;
    csr_b.col_indices = matrix.col_indices;
    csr_b.values = matrix.values;
    csr_b.bounds = find_bounds(csr_b.rows, csr_b.row_offsets, tuning.fragment);
    if (target.device.is_cuda()) csr_b.spans = Array<RowSpan>::from(spans_of(csr_b.bounds));
    return csr_b;
}

template <class T>
Csr<T> CsrB<T>::to_csr() const {
    Csr<T> csr;
    csr.rows = rows;
    csr.cols = cols;
    csr.nnz = nnz;
    csr.row_offsets = row_offsets;
    csr.col_indices = col_indices;
    csr.values = values;
    return csr;
}

template <class T>
void CsrB<T>::spmv(const Product<T>& product) const {
    spmv_by_rows_and_nonzeros(rows, row_offsets.data(), product, [this](index_t begin, index_t end, const T* x) {
        return sum_products(values.data(), begin, end, [&](index_t k) { return x[col_indices[k]]; });
    });
}

template <class T>
void CsrB<T>::multiply_panel(const PanelProduct<T>& product) const {
    multiply_panel_by_rows(rows, row_offsets.data(), values.data(), col_indices.data(), product);
}

template struct CsrB<float>;
template struct CsrB<double>;

}  // namespace spmvgpu
