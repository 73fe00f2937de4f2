#pragma once

#include "formats/model.hpp"
#include "formats/sdia/rows.hpp"

namespace spmvgpu::roofline {

template <class T>
struct FormatModel<Sdia<T>> : GeneralModel<Sdia<T>> {
    static Terms on_gpu(const Work& work, const SdiaPlan&) { return work.by_diagonals(); }
    static Terms on_cpu(const Work& work, const SdiaPlan&) { return work.on_cpu(work.parts_of(512)); }

    // Some diagonals may be mirror images of others.
    static double least_slots(const Features& features, const SdiaPlan&) {
        return std::max<double>(features.nnz, double(features.rows) * std::max(features.longest, features.diagonals));
    }
};

}  // namespace spmvgpu::roofline
