#pragma once

#include "formats/model.hpp"
#include "formats/packed_sell/layout.hpp"

namespace spmvgpu::roofline {

template <class T>
struct FormatModel<PackedSell<T>> : GeneralModel<PackedSell<T>> {
    // With its own bytes; unpacking is in a slot's cost.
    static Terms on_gpu(const Work& work, const PackedSellPlan<T>& plan) {
        return work.by_slices(plan.tuning.warps_per_slice, plan.tuning.sigma > 1);
    }
    static Terms on_cpu(const Work& work, const PackedSellPlan<T>&) { return work.on_cpu(work.parts_of(32)); }

    template <class Visit>
    static void each_choice(const Features&, PackedSellPlan<T>& plan, const Visit& visit) {
        each_slicing(plan.tuning, 32, visit);
    }
};

}  // namespace spmvgpu::roofline
