#pragma once

#include "formats/model.hpp"
#include "formats/papers/csr_m/layout.hpp"

namespace spmvgpu::roofline {

template <class T>
struct FormatModel<CsrM<T>> : GeneralModel<CsrM<T>> {
    static Terms on_gpu(const Work& work, const CsrMPlan&) { return work.by_rows(32); }
};

}  // namespace spmvgpu::roofline
