#pragma once

#include <cmath>

#include "formats/csr/rows.hpp"
#include "formats/model.hpp"

namespace spmvgpu::roofline {

template <class T>
struct FormatModel<Csr<T>> : GeneralModel<Csr<T>> {
    static std::vector<Options> kernels() {
        using namespace std::string_literals;
        return {{{"kernel", "balanced"s}}, {{"kernel", "shuffle"s}}};
    }

    static Terms on_gpu(const Work& work, const CsrPlan& plan) {
        const CsrKernel kernel = plan.tuning.kernel;
        if (kernel == CsrKernel::kShuffle) return work.by_rows(plan.tuning.lanes_per_row);
        if (kernel == CsrKernel::kShared) return work.by_rows(32);
        if (kernel == CsrKernel::kHalfWarp) return work.by_rows(16);
        Terms terms = work.by_entries();
        terms[kDepth] = std::log1p(work.features.longest / 32.0);
        return terms;
    }

    template <class Visit>
    static void each_choice(const Features&, CsrPlan& plan, const Visit& visit) {
        const CsrKernel asked = plan.tuning.kernel;
        if (asked != CsrKernel::kShuffle) visit();
        if (asked != CsrKernel::kShuffle && asked != CsrKernel::kAuto) return;
        plan.tuning.kernel = CsrKernel::kShuffle;
        each_power_of_two(plan.tuning.lanes_per_row, 32, visit);
    }
};

}  // namespace spmvgpu::roofline
