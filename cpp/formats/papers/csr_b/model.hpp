#pragma once

#include "formats/model.hpp"
#include "formats/papers/csr_b/layout.hpp"

namespace spmvgpu::roofline {

template <class T>
struct FormatModel<CsrB<T>> : GeneralModel<CsrB<T>> {
    static Terms on_gpu(const Work& work, const CsrBPlan& plan) {
        Terms terms = work.by_entries();
        terms[kRounds] = plan.rounds / kMillion;
        terms[kChain] = plan.longest_rounds;
        terms[kCut] = work.features.longest > 32;
        return terms;
    }
};

}  // namespace spmvgpu::roofline
