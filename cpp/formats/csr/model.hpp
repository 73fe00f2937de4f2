#pragma once

#include "formats/csr/rows.hpp"
#include "formats/model.hpp"

namespace spmvgpu::csr_choice {

times::Terms terms_of(const times::Work& work, const CsrTuning& tuning);
const times::Terms& costs_of(const CsrTuning& tuning);

// The fastest completion of a tuning, for values of this size.
CsrTuning fastest(const CsrTuning& asked, const Features& features, int item_bytes, int processors);

}  // namespace spmvgpu::csr_choice

namespace spmvgpu::roofline {

template <class T>
struct FormatModel<Csr<T>> : GeneralModel<Csr<T>> {
    static constexpr bool kIsMeasured = true;
    static Terms on_gpu(const Work& work, const CsrPlan& plan) { return csr_choice::terms_of(work, plan.tuning); }
    static const Terms& gpu_costs(const CsrPlan& plan) { return csr_choice::costs_of(plan.tuning); }
    static constexpr Terms kCpuCosts = times::costs({{times::kWake, 39.5},
                                                     {times::kMemory, 44},
                                                     {times::kSharedCache, 1.65},
                                                     {times::kXCache, 679},
                                                     {times::kEntries, 437},
                                                     {times::kRows, 4.68e+03}});

    template <class Visit>
    static void each_choice(const Features&, CsrPlan& plan, const Visit& visit) {
        const CsrKernel asked = plan.tuning.kernel;
        const auto takes = [&](CsrKernel kernel) {
            plan.tuning.kernel = kernel;
            return asked == CsrKernel::kAuto || asked == kernel;
        };
        if (takes(CsrKernel::kBalanced)) {
            for (plan.tuning.tile = 512; plan.tuning.tile <= 4096; plan.tuning.tile *= 2) visit();
        }
        if (takes(CsrKernel::kNodes)) {
            for (plan.tuning.lanes_per_row = Node::kLeastLanes; plan.tuning.lanes_per_row <= 32;
                 plan.tuning.lanes_per_row *= 2) {
                visit();
            }
        }
        if (takes(CsrKernel::kShuffle)) each_power_of_two(plan.tuning.lanes_per_row, 32, visit);
    }
};

}  // namespace spmvgpu::roofline
