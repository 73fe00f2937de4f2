#pragma once

#include "formats/model.hpp"
#include "formats/stencil/rows.hpp"

namespace spmvgpu::stencil_choice {

std::optional<Promise> promise(const RowSample& sample);

}  // namespace spmvgpu::stencil_choice

namespace spmvgpu::roofline {

template <class T>
struct FormatModel<Stencil<T>> : GeneralModel<Stencil<T>> {
    // A warp reads each slot once for neighbours with equal stencils, and once for each of them otherwise.
    static constexpr bool kIsMeasured = true;
    static const Terms& gpu_costs(const auto&) {
        static constexpr Terms kCosts = times::costs({{times::kLaunch, 1.76},
                                                      {times::kMemory, 0.354},
                                                      {times::kCache, 0.243},
                                                      {times::kSlots, 0.319},
                                                      {times::kRows, 1.38},
                                                      {times::kLoads, 0.077},
                                                      {times::kChanges, 1.12}});
        return kCosts;
    }
    static constexpr Terms kCpuCosts = times::costs(
        {{times::kSharedCache, 14.2}, {times::kCache, 33.1}, {times::kEntries, 614}, {times::kRows, 1.87e+03}});
    static Terms on_gpu(const Work& work, const StencilPlan& plan) {
        Terms terms = work.by_diagonals();
        terms[times::kChanges] = plan.changes * (work.features.nnz / work.rows()) / kMillion;
        return terms;
    }
    static Terms on_cpu(const Work& work, const StencilPlan&) { return work.on_cpu(work.parts_of(512)); }
    static std::optional<Promise> promise(const RowSample& sample) { return stencil_choice::promise(sample); }

    // A sample of this many rows of few kinds has some equal ones; and the rows lie on few diagonals, at most this many
    // times the entries of a row.
    static bool may_hold(const Features& features) {
        constexpr index_t kManyRows = 8192;
        constexpr double kMostDiagonals = 8;
        return features.rows <= kManyRows || (features.different_rows != Features::kFewRows &&
                                              features.diagonals <= kMostDiagonals * std::max(features.mean, 1.0));
    }
};

}  // namespace spmvgpu::roofline
