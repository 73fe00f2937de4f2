#include "formats/csr_b.hpp"

#include <algorithm>

#include "formats/panel_products.hpp"
#include "formats/row_products.hpp"

namespace spmvgpu {

namespace {

Array<RowBound> bound_fragments(index_t rows, const Array<index_t>& row_offsets, int fragment) {
    const index_t nnz = row_offsets[rows];
    if (nnz > 0 || rows == 0) return find_bounds(row_offsets, nnz, fragment);
    return Array<RowBound>::from(HostVector<RowBound>{{0, rows - 1}});  // somebody has to write the empty rows
}

// The rounds in which thread blocks go through the rows of their fragments: of all of them, and of the longest.
void count_rounds(const CsrBPlan& plan, index_t rows, std::map<std::string, double>& counts) {
    const Array<RowBound>& bounds = plan.bounds;
    std::int64_t all = 0, most = 0;
    for (std::size_t f = 0; f < bounds.size(); ++f) {
        // As the kernel does: with the empty rows before the fragment, and after the last one.
        const index_t begin = std::min(f > 0 ? bounds[f - 1].last + 1 : 0, bounds[f].first);
        const index_t count = (f + 1 < bounds.size() ? bounds[f].last + 1 : rows) - begin;
        const int lanes = count > plan.tuning.fragment ? 1 : plan.tuning.lanes_per_row;
        const int at_once = CsrBTuning::kBlockSize / lanes;
        const std::int64_t rounds = count / at_once + (count % at_once != 0);
        all += rounds;
        most = std::max(most, rounds);
    }
    counts = {{"rounds", static_cast<double>(all)}, {"longest_rounds", static_cast<double>(most)}};
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
CsrBPlan CsrB<T>::plan(const CsrMatrix<T>& csr, const Tuning& tuning, const Target& target) {
    CsrBPlan plan{tuning, {}, bound_fragments(csr.rows, csr.row_offsets, tuning.fragment), {}};
    plan.cost.bytes = csr.bytes() + plan.bounds.bytes();
    plan.cost.slots = plan.cost.entries = plan.cost.gathers = csr.nnz;
    if (target.device.is_cuda()) {
        plan.spans = find_spans(plan.bounds);
        plan.cost.bytes += plan.spans.size() * sizeof(RowSpan);
        if (!plan.spans.empty()) plan.cost.bytes += 2 * sizeof(T) * plan.bounds.size();
        plan.cost.launches = (csr.rows > 0) + !plan.spans.empty();
        count_rounds(plan, csr.rows, plan.cost.counts);
    }
    return plan;
}

template <class T>
CsrB<T> CsrB<T>::from_csr(const CsrMatrix<T>& csr, const Plan& plan) {
    return {csr.rows,        csr.cols,   csr.nnz,     csr.row_offsets,
            csr.col_indices, csr.values, plan.bounds, Array<RowSpan>::from(plan.spans),
            plan.tuning};
}

template <class T>
CsrMatrix<T> CsrB<T>::to_csr() const {
    return {rows, cols, nnz, row_offsets, col_indices, values};
}

template <class T>
void CsrB<T>::spmv(const Product<T>& product) const {
    spmv_by_rows_and_nonzeros(rows, row_offsets.data(), product, [this](index_t begin, index_t end, const T* x) {
        return sum_products(values.data(), begin, end, [&](index_t k) { return x[col_indices[k]]; });
    });
}

template <class T>
void CsrB<T>::multiply_panel(const Product<T>& product) const {
    multiply_panel_by_rows(rows, row_offsets.data(), values.data(), col_indices.data(), product);
}

#define INSTANTIATE(T) template struct CsrB<T>;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)

}  // namespace spmvgpu
