#pragma once

#include "formats/dia/rows.hpp"
#include "formats/model.hpp"

namespace spmvgpu::roofline {

template <class T>
struct FormatModel<Dia<T>> : GeneralModel<Dia<T>> {
    static Terms on_gpu(const Work& work, const DiaPlan&) { return work.by_diagonals(); }
    static Terms on_cpu(const Work& work, const DiaPlan&) { return work.on_cpu(work.parts_of(512)); }

    static double least_slots(const Features& features, const DiaPlan&) {
        return std::max<double>(features.nnz, double(features.rows) * std::max(features.longest, features.diagonals));
    }
};

}  // namespace spmvgpu::roofline
