#pragma once

#include "formats/model.hpp"
#include "formats/papers/hyb/layout.hpp"

namespace spmvgpu::roofline {

template <class T>
struct FormatModel<Hyb<T>> : GeneralModel<Hyb<T>> {
    static Terms on_gpu(const Work& work, const HybPlan& plan) {
        const double in_coo = static_cast<double>(plan.coo.cost.entries), in_ell = work.stored.slots - in_coo;
        Terms terms = work.by_rows(1);
        terms[kSteps] = terms[kThreads] = 0;
        terms[kChain] = in_ell / work.rows();
        terms[kRows] = work.features.rows / kMillion;
        terms[kSlots] = in_ell / kMillion;
        terms[kEntries] = in_coo / kMillion;
        terms[kLaunches] = in_coo > 0;
        return terms;
    }
    static Terms on_cpu(const Work& work, const HybPlan& plan) {
        const double in_coo = static_cast<double>(plan.coo.cost.entries), in_ell = work.multiplied() - in_coo;
        const std::int64_t parts = work.parts_of(2048);
        Terms terms = work.on_cpu(parts);
        terms[kEntries] = in_coo * work.busiest(Work::kAnyParts) / kMillion;
        terms[kSlots] = in_ell * work.busiest(parts) / kMillion;
        return terms;
    }
};

}  // namespace spmvgpu::roofline
