#pragma once

#include "formats/builder.hpp"
#include "formats/coo/layout.hpp"
#include "formats/shared/spans_build.hpp"

namespace spmvgpu {

int choose_strip(index_t nnz, int processors);

template <class T, class Passes>
struct Builder<Coo<T>, Passes> {
    static CooPlan plan_for(Passes& passes, const CsrMatrix<T>& csr, const CooTuning& tuning, const Target& target) {
        CooPlan plan{tuning, {}, false, {}};
        if (tuning.strip == 0) plan.tuning.strip = choose_strip(csr.nnz, target.processors);
        const index_t* const row_offsets = csr.row_offsets.data();
        const auto empty_rows = passes.template reduce<std::int64_t>(
            csr.rows, [=] SPMVGPU_BODY(std::int64_t row) { return row_offsets[row] == row_offsets[row + 1]; });
        plan.has_empty_rows = empty_rows > 0;
        plan.cost.bytes = csr.nnz * (sizeof(T) + 2 * sizeof(index_t));
        plan.cost.slots = plan.cost.entries = plan.cost.gathers = csr.nnz;
        if (target.device.is_gpu()) {
            const auto bounds = find_bounds(passes, csr.rows, row_offsets, csr.nnz, plan.tuning.strip);
            plan.spans = find_spans(passes, bounds);
            plan.cost.bytes += plan.spans.bytes();
            plan.cost.bytes += Coo<T>::workspace_bytes(static_cast<index_t>(bounds.size()), plan.spans.size());
            plan.cost.launches = plan.has_empty_rows + (csr.nnz > 0) + (plan.spans.size() > 0);
        }
        return plan;
    }

    static Coo<T> from_csr(Passes& passes, const CsrMatrix<T>& csr, const CooPlan& plan) {
        Array<index_t> row_indices = passes.template make<index_t>(csr.nnz);
        index_t* const to = row_indices.data();
        passes.each_entry(csr.rows, csr.row_offsets.data(), csr.nnz,
                          [=] SPMVGPU_BODY(index_t row, index_t k) { to[k] = row; });
        return {csr.rows,        csr.cols,   csr.nnz,    plan.has_empty_rows, row_indices,
                csr.col_indices, csr.values, plan.spans, plan.tuning};
    }
};

}  // namespace spmvgpu
