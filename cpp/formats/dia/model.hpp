#pragma once

#include "formats/dia/rows.hpp"
#include "formats/model.hpp"

namespace spmvgpu::dia_choice {

std::optional<Promise> promise(const RowSample& sample);

}  // namespace spmvgpu::dia_choice

namespace spmvgpu::roofline {

template <class T>
struct FormatModel<Dia<T>> : GeneralModel<Dia<T>> {
    static constexpr bool kIsMeasured = true;
    static const Terms& gpu_costs(const auto&) {
        static constexpr Terms kCosts = times::costs({{times::kLaunch, 1.33},
                                                      {times::kMemory, 0.284},
                                                      {times::kCache, 0.208},
                                                      {times::kSlots, 0.534},
                                                      {times::kLoads, 0.11}});
        return kCosts;
    }
    static constexpr Terms kCpuCosts = times::costs({{times::kLaunch, 2.95},
                                                     {times::kWake, 12.9},
                                                     {times::kMemory, 85.9},
                                                     {times::kSharedCache, 5.11},
                                                     {times::kCache, 21.5}});
    static Terms on_gpu(const Work& work, const DiaPlan&) { return work.by_diagonals(); }
    static Terms on_cpu(const Work& work, const DiaPlan&) { return work.on_cpu(work.parts_of(512)); }
    static std::optional<Promise> promise(const RowSample& sample) { return dia_choice::promise(sample); }

    static double least_slots(const Features& features, const DiaPlan&) {
        return std::max<double>(features.nnz, double(features.rows) * std::max(features.longest, features.diagonals));
    }
};

}  // namespace spmvgpu::roofline
