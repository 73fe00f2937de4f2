#pragma once

#include "formats/model.hpp"
#include "formats/tsmv/layout.hpp"

namespace spmvgpu::roofline {

template <class T>
struct FormatModel<Tsmv<T>> : GeneralModel<Tsmv<T>> {
    // Half of the matrix is stored; what is not a value says where the values belong, and how the tiles meet.
    static constexpr bool kIsMeasured = true;
    static const Terms& gpu_costs(const auto&) {
        static constexpr Terms kCosts = times::costs({{times::kLaunch, 6.61},
                                                      {times::kCache, 0.136},
                                                      {times::kIndices, 0.189},
                                                      {times::kSlots, 3.46},
                                                      {times::kWaves, 0.0165}});
        return kCosts;
    }
    static constexpr Terms kCpuCosts = times::costs({{times::kWake, 185},
                                                     {times::kSharedCache, 38.1},
                                                     {times::kXCache, 2.69e+04},
                                                     {times::kEntries, 907},
                                                     {times::kRows, 8.82e+03}});
    static Terms on_gpu(const Work& work, const TsmvPlan<T>&) {
        Terms terms = work.streams();
        terms[times::kIndices] = work.index_bytes() / kMillion;
        terms[times::kSlots] = work.stored.slots / kMillion;
        terms[times::kRows] = work.features.rows / kMillion;
        terms[times::kLoads] = work.features.longest;
        return terms;
    }
};

}  // namespace spmvgpu::roofline
