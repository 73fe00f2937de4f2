#pragma once

#include "formats/builder.hpp"
#include "formats/papers/csr_b/layout.hpp"
#include "formats/shared/spans_build.hpp"

namespace spmvgpu {

// Rounds in which thread blocks go through the rows of their fragments: of all of them, and of the longest.
struct FragmentRounds {
    std::int64_t all = 0, most = 0;

    constexpr FragmentRounds& operator+=(const FragmentRounds& other) {
        all += other.all;
        if (other.most > most) most = other.most;
        return *this;
    }
};

template <class T, class Passes>
struct Builder<CsrB<T>, Passes> {
    static CsrBPlan plan_for(Passes& passes, const CsrMatrix<T>& csr, const CsrBTuning& tuning, const Target& target) {
        CsrBPlan plan{tuning, {}, find_fragments(passes, csr, tuning.fragment), {}};
        plan.cost.bytes = csr.bytes() + plan.bounds.bytes();
        plan.cost.slots = plan.cost.entries = plan.cost.gathers = csr.nnz;
        if (target.device.is_gpu()) {
            plan.spans = find_spans(passes, plan.bounds);
            plan.cost.bytes += plan.spans.bytes();
            if (plan.spans.size() > 0) plan.cost.bytes += 2 * sizeof(T) * plan.bounds.size();
            plan.cost.launches = (csr.rows > 0) + (plan.spans.size() > 0);
            const FragmentRounds rounds = count_rounds(passes, plan, csr.rows);
            plan.rounds = rounds.all;
            plan.longest_rounds = rounds.most;
        }
        return plan;
    }

    static CsrB<T> from_csr(Passes&, const CsrMatrix<T>& csr, const CsrBPlan& plan) {
        return {csr.rows,   csr.cols,    csr.nnz,    csr.row_offsets, csr.col_indices,
                csr.values, plan.bounds, plan.spans, plan.tuning};
    }

    static Array<RowBound> find_fragments(Passes& passes, const CsrMatrix<T>& csr, int fragment) {
        if (csr.nnz > 0 || csr.rows == 0) {
            return find_bounds(passes, csr.rows, csr.row_offsets.data(), csr.nnz, fragment);
        }
        Array<RowBound> all_rows = passes.template make<RowBound>(1);  // empty rows must be written as well
        passes.fill(all_rows.data(), 1, RowBound{0, csr.rows - 1});
        return all_rows;
    }

    static FragmentRounds count_rounds(Passes& passes, const CsrBPlan& plan, index_t rows) {
        const RowBound* const bounds = plan.bounds.data();
        const auto fragments = static_cast<std::int64_t>(plan.bounds.size());
        const CsrBTuning tuning = plan.tuning;
        return passes.template reduce<FragmentRounds>(fragments, [=] SPMVGPU_BODY(std::int64_t f) {
            // As in the kernel, the empty rows before the fragment and after the last one are included.
            const index_t after_last = f > 0 ? bounds[f - 1].last + 1 : 0;
            const index_t begin = after_last < bounds[f].first ? after_last : bounds[f].first;
            const index_t count = (f + 1 < fragments ? bounds[f].last + 1 : rows) - begin;
            const int at_once = CsrBTuning::kBlockSize / (count > tuning.fragment ? 1 : tuning.lanes_per_row);
            const std::int64_t rounds = count / at_once + (count % at_once != 0);
            return FragmentRounds{rounds, rounds};
        });
    }
};

}  // namespace spmvgpu
