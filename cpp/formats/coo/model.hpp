#pragma once

#include "formats/coo/layout.hpp"
#include "formats/model.hpp"

namespace spmvgpu::roofline {

template <class T>
struct FormatModel<Coo<T>> : GeneralModel<Coo<T>> {
    static constexpr bool kIsMeasured = true;
    static constexpr Terms kCpuCosts = times::costs({{times::kWake, 82.6},
                                                     {times::kMemory, 79},
                                                     {times::kSharedCache, 4.16},
                                                     {times::kXCache, 1.31e+03},
                                                     {times::kEntries, 1.03e+03},
                                                     {times::kRows, 8.68e+03}});
    static Terms on_gpu(const Work& work, const CooPlan&) {
        Terms terms = work.by_entries();
        terms[times::kEmpty] = work.features.empty_rows > 0;
        terms[times::kCut] = work.features.longest > 512;
        return terms;
    }
};

}  // namespace spmvgpu::roofline
