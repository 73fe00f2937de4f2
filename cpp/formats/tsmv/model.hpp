#pragma once

#include "formats/model.hpp"
#include "formats/tsmv/layout.hpp"

namespace spmvgpu::roofline {

template <class T>
struct FormatModel<Tsmv<T>> : GeneralModel<Tsmv<T>> {
    // Half of the matrix is stored; what is not a value says where the values belong, and how the tiles meet.
    static Terms on_gpu(const Work& work, const TsmvPlan<T>&) {
        Terms terms = work.streams();
        terms[kIndices] = work.index_bytes() / kMillion;
        terms[kSlots] = work.stored.slots / kMillion;
        terms[kRows] = work.features.rows / kMillion;
        terms[kChain] = work.features.longest;
        return terms;
    }
};

}  // namespace spmvgpu::roofline
