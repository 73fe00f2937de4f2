#pragma once

#include "formats/coo/layout.hpp"
#include "formats/model.hpp"

namespace spmvgpu::roofline {

template <class T>
struct FormatModel<Coo<T>> : GeneralModel<Coo<T>> {
    static Terms on_gpu(const Work& work, const CooPlan&) {
        Terms terms = work.by_entries();
        terms[kEmpty] = work.features.empty_rows > 0;
        terms[kCut] = work.features.longest > 512;
        return terms;
    }
};

}  // namespace spmvgpu::roofline
