#pragma once

#include "formats/model.hpp"
#include "formats/tsmv/layout.hpp"

namespace spmvgpu::roofline {

template <class T>
struct FormatModel<Tsmv<T>> : GeneralModel<Tsmv<T>> {
    static constexpr bool kIsMeasured = true;
    static const Terms& gpu_costs(const auto&) {
        static constexpr Terms kCosts = times::costs({{times::kLaunch, 5.26},
                                                      {times::kMemory, 0.311},
                                                      {times::kCache, 0.132},
                                                      {times::kXCache, 14.8},
                                                      {times::kEntries, 36},
                                                      {times::kSlots, 1.86},
                                                      {times::kRows, 6.45},
                                                      {times::kLoads, 0.183}});
        return kCosts;
    }
    static constexpr Terms kCpuCosts = times::costs({{times::kWake, 185},
                                                     {times::kSharedCache, 38.1},
                                                     {times::kXCache, 2.69e+04},
                                                     {times::kEntries, 907},
                                                     {times::kRows, 8.82e+03}});
    // Tiles read x of their halos and write their terms of y there; a step waits for the one before. The remainder's
    // entries are in csr. Before a plan, blocks have the largest size, and there are neither halos nor steps.
    static Terms on_gpu(const Work& work, const TsmvPlan<T>& plan) {
        const TsmvLayout& layout = plan.layout;
        const int block = plan.tuning.block > 0 ? plan.tuning.block : kMaxBlock;
        Terms terms = work.streams();
        terms[times::kXCache] = double(layout.halo) * block / kMillion;
        terms[times::kEntries] = layout.remainder / kMillion;
        terms[times::kSlots] = (work.stored.slots - layout.remainder) / (block * block) / kMillion;
        terms[times::kRows] = work.features.rows / kMillion;
        terms[times::kLoads] = layout.most_steps;
        return terms;
    }
    static index_t block(const Features&) { return kMaxBlock; }
};

}  // namespace spmvgpu::roofline
