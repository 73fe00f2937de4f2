#pragma once

#include "formats/model.hpp"
#include "formats/papers/ell/rows.hpp"

namespace spmvgpu::roofline {

template <class T>
struct FormatModel<Ellpack<T>> : GeneralModel<Ellpack<T>> {
    static Terms on_gpu(const Work& work, const EllPlan<PaddedTuning>&) {
        Terms terms = work.by_rows_of_slots(1);
        terms[kSteps] = 0;  // it walks the padding too
        return terms;
    }
    static Terms on_cpu(const Work& work, const EllPlan<PaddedTuning>&) { return work.on_cpu(work.parts_of(2048)); }
};

template <class T>
struct FormatModel<EllpackR<T>> : GeneralModel<EllpackR<T>> {
    static Terms on_gpu(const Work& work, const EllPlan<PaddedTuning>&) { return work.by_rows_of_slots(1); }
    static Terms on_cpu(const Work& work, const EllPlan<PaddedTuning>&) { return work.on_cpu(work.parts_of(2048)); }
};

template <class T>
struct FormatModel<EllrT<T>> : GeneralModel<EllrT<T>> {
    static Terms on_gpu(const Work& work, const EllPlan<EllrTTuning>& plan) {
        return work.by_rows_of_slots(plan.tuning.threads_per_row);
    }
    static Terms on_cpu(const Work& work, const EllPlan<EllrTTuning>& plan) {
        return work.on_cpu(work.parts_of(2048, plan.tuning.threads_per_row));
    }
};

}  // namespace spmvgpu::roofline
