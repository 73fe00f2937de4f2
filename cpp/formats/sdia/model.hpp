#pragma once

#include "formats/dia/model.hpp"
#include "formats/sdia/rows.hpp"

namespace spmvgpu::roofline {

template <class T>
struct FormatModel<Sdia<T>> : GeneralModel<Sdia<T>> {
    static constexpr bool kIsMeasured = true;
    static const Terms& gpu_costs(const auto&) {
        static constexpr Terms kCosts = times::costs(
            {{times::kLaunch, 1.27}, {times::kMemory, 0.328}, {times::kCache, 0.224}, {times::kLoads, 0.254}});
        return kCosts;
    }
    static constexpr Terms kCpuCosts = FormatModel<Dia<T>>::kCpuCosts;
    // Mirror images come from the last cache, mostly while memory is busy.
    static Terms on_gpu(const Work& work, const SdiaPlan& plan) {
        constexpr double kNotHidden = 0.55, kMillion = 1e6;
        const double mirrored = double(plan.offsets.size() - plan.has_main) * work.features.rows * sizeof(T);
        Terms terms = work.by_diagonals();
        const double all = terms[times::kMemory] + terms[times::kCache];
        const double from_memory = all > 0 ? terms[times::kMemory] / all : 0;
        terms[times::kCache] += kNotHidden * from_memory * mirrored / kMillion;
        return terms;
    }
    // Values are read once more as mirror images, from a cache.
    static Terms on_cpu(const Work& work, const SdiaPlan& plan) {
        Terms terms = work.on_cpu(work.parts_of(512));
        terms[times::kCache] += double(plan.offsets.size() - plan.has_main) * sizeof(T) * terms[times::kRows];
        return terms;
    }

    // Some diagonals may be mirror images of others.
    static double least_slots(const Features& features, const SdiaPlan&) {
        return std::max<double>(features.nnz, double(features.rows) * std::max(features.longest, features.diagonals));
    }
};

}  // namespace spmvgpu::roofline
