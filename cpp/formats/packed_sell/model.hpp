#pragma once

#include "formats/model.hpp"
#include "formats/packed_sell/layout.hpp"

namespace spmvgpu::roofline {

template <class T>
struct FormatModel<PackedSell<T>> : GeneralModel<PackedSell<T>> {
    // Packed bytes; the time to unpack is part of a slot's cost.
    static Terms on_gpu(const Work& work, const PackedSellPlan<T>& plan) {
        return work.by_slices({.bytes = work.stored.bytes,
                               .slots = work.stored.slots,
                               .widest = double(work.features.longest),
                               .warps = plan.tuning.warps_per_slice,
                               .is_sorted = plan.tuning.sigma > 1});
    }
    static constexpr bool kIsMeasured = true;
    static const Terms& gpu_costs(const PackedSellPlan<T>&) { return kPackedSellCosts; }
    static constexpr Terms kCpuCosts = times::costs({{times::kWake, 59.2},
                                                     {times::kMemory, 116},
                                                     {times::kSharedCache, 3.98},
                                                     {times::kCache, 58.5},
                                                     {times::kXCache, 363},
                                                     {times::kEntries, 1.06e+03},
                                                     {times::kRows, 942}});
    static Terms on_cpu(const Work& work, const PackedSellPlan<T>&) { return work.on_cpu(work.parts_of(32)); }

    template <class Visit>
    static void each_choice(const Features&, PackedSellPlan<T>& plan, const Visit& visit) {
        each_slicing(plan.tuning, 32, visit);
    }
};

}  // namespace spmvgpu::roofline
