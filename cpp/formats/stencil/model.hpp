#pragma once

#include "formats/model.hpp"
#include "formats/stencil/rows.hpp"

namespace spmvgpu::roofline {

template <class T>
struct FormatModel<Stencil<T>> : GeneralModel<Stencil<T>> {
    // Of neighbours that are the same stencil a warp reads each slot once, and of others once for each.
    static Terms on_gpu(const Work& work, const StencilPlan& plan) {
        Terms terms = work.by_diagonals();
        terms[kChanges] = plan.changes * (work.features.nnz / work.rows()) / kMillion;
        return terms;
    }
    static Terms on_cpu(const Work& work, const StencilPlan&) { return work.on_cpu(work.parts_of(512)); }

    // Of so many rows of few kinds no small sample has different ones alone; and they lie on few diagonals, no more
    // than so many times as many as a row has entries.
    static bool may_hold(const Features& features) {
        constexpr index_t kManyRows = 8192;
        constexpr double kMostDiagonals = 8;
        return features.rows <= kManyRows || (features.different_rows != Features::kFewRows &&
                                              features.diagonals <= kMostDiagonals * std::max(features.mean, 1.0));
    }
};

}  // namespace spmvgpu::roofline
