#pragma once

#include "formats/bsell/rows.hpp"
#include "formats/model.hpp"

namespace spmvgpu::bsell_choice {

std::optional<Promise> promise(const RowSample& sample);

}  // namespace spmvgpu::bsell_choice

namespace spmvgpu::roofline {

template <class T>
struct FormatModel<Bsell<T>> : GeneralModel<Bsell<T>> {
    // A lane takes a row of blocks, and reads x once for all rows of a block.
    static Terms on_gpu(const Work& work, const BsellPlan& plan) {
        return work.by_slices({.bytes = work.stored.bytes,
                               .slots = work.stored.slots / (plan.block * plan.block),
                               .widest = double(work.features.longest) / plan.block,
                               .block = plan.block,
                               .warps = plan.tuning.warps_per_slice,
                               .is_sorted = plan.tuning.sigma > 1,
                               .in_flight = double(Bsell<T>::in_flight(plan.block))});
    }
    static constexpr bool kIsMeasured = true;
    static const Terms& gpu_costs(const BsellPlan&) { return kBsellCosts; }
    static constexpr Terms kCpuCosts = times::costs({{times::kLaunch, 0.284},
                                                     {times::kWake, 47.4},
                                                     {times::kMemory, 89},
                                                     {times::kSharedCache, 2.28},
                                                     {times::kCache, 18.7},
                                                     {times::kXCache, 667},
                                                     {times::kSlots, 534},
                                                     {times::kRows, 3.12e+03}});
    static Terms on_cpu(const Work& work, const BsellPlan&) { return work.on_cpu(work.parts_of(32)); }
    static std::optional<Promise> promise(const RowSample& sample) { return bsell_choice::promise(sample); }

    static index_t block(const Features& features) {
        for (const index_t block : BsellTuning::kBlocks) {
            if (features.nnz % (block * block) == 0 && features.rows % block == 0 && features.cols % block == 0) {
                return block;
            }
        }
        return 1;
    }
    template <class Visit>
    static void each_choice(const Features& features, BsellPlan& plan, const Visit& visit) {
        plan.block = block(features);
        each_slicing(plan.tuning, BsellTuning::kMostWarps, visit);
    }
};

}  // namespace spmvgpu::roofline
