#pragma once

#include "formats/model.hpp"
#include "formats/papers/hyb/layout.hpp"

namespace spmvgpu::roofline {

template <class T>
struct FormatModel<Hyb<T>> : GeneralModel<Hyb<T>> {
    static Terms on_cpu(const Work& work, const HybPlan&) { return work.on_cpu(work.parts_of(2048)); }
};

}  // namespace spmvgpu::roofline
