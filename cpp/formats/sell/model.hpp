#pragma once

#include "formats/model.hpp"
#include "formats/sell/rows.hpp"

namespace spmvgpu::sell_choice {

std::optional<Promise> promise(const RowSample& sample);

}  // namespace spmvgpu::sell_choice

namespace spmvgpu::roofline {

template <class T>
struct FormatModel<Sell<T>> : GeneralModel<Sell<T>> {
    static Terms on_gpu(const Work& work, const SellPlan& plan) {
        return work.by_slices({.bytes = work.stored.bytes,
                               .slots = work.stored.slots,
                               .widest = double(work.features.longest),
                               .warps = plan.tuning.warps_per_slice,
                               .is_sorted = plan.tuning.sigma > 1});
    }
    static constexpr bool kIsMeasured = true;
    static const Terms& gpu_costs(const SellPlan&) { return kSellCosts; }
    static Terms on_cpu(const Work& work, const SellPlan&) { return work.on_cpu(work.parts_of(32)); }
    static std::optional<Promise> promise(const RowSample& sample) { return sell_choice::promise(sample); }

    // Slices in the given order have a known number of slots.
    static double least_slots(const Features& features, const SellPlan& plan) {
        const double in_order = Features::kWarp * features.warp_steps[0];
        return plan.tuning.sigma == 1 ? std::max<double>(features.nnz, in_order) : features.nnz;
    }
    template <class Visit>
    static void each_choice(const Features&, SellPlan& plan, const Visit& visit) {
        each_slicing(plan.tuning, 32, visit);
    }
};

}  // namespace spmvgpu::roofline
