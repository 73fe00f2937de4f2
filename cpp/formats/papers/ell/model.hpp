#pragma once

#include "formats/model.hpp"
#include "formats/papers/ell/rows.hpp"

namespace spmvgpu::roofline {

template <class T>
struct FormatModel<Ellpack<T>> : GeneralModel<Ellpack<T>> {
    static Terms on_cpu(const Work& work, const EllPlan<PaddedTuning>&) { return work.on_cpu(work.parts_of(2048)); }
};

template <class T>
struct FormatModel<EllpackR<T>> : GeneralModel<EllpackR<T>> {
    static Terms on_cpu(const Work& work, const EllPlan<PaddedTuning>&) { return work.on_cpu(work.parts_of(2048)); }
};

template <class T>
struct FormatModel<EllrT<T>> : GeneralModel<EllrT<T>> {
    static Terms on_cpu(const Work& work, const EllPlan<EllrTTuning>& plan) {
        return work.on_cpu(work.parts_of(2048, plan.tuning.threads_per_row));
    }
};

}  // namespace spmvgpu::roofline
