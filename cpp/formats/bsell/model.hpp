#pragma once

#include "formats/bsell/rows.hpp"
#include "formats/model.hpp"

namespace spmvgpu::roofline {

template <class T>
struct FormatModel<Bsell<T>> : GeneralModel<Bsell<T>> {
    // A row of blocks for each lane, which reads x once for all rows of a block.
    static Terms on_gpu(const Work& work, const BsellPlan& plan) {
        const double block = plan.block;
        Terms terms = work.by_slices(plan.tuning.warps_per_slice, plan.tuning.sigma > 1);
        for (const Term shared : {kXBlock, kXLoads, kXChain, kChain, kThreads}) terms[shared] /= block;
        terms[kSlots] = work.stored.slots / (block * block) / kMillion;
        terms[kEntries] = work.features.nnz / kMillion;
        return terms;
    }
    static Terms on_cpu(const Work& work, const BsellPlan&) { return work.on_cpu(work.parts_of(32)); }

    // The largest that a matrix of so many rows, columns and entries can consist of.
    static index_t block(const Features& features) {
        for (const index_t block : BsellTuning::kBlocks) {
            if (features.nnz % (block * block) == 0 && features.rows % block == 0 && features.cols % block == 0) {
                return block;
            }
        }
        return 1;
    }
    template <class Visit>
    static void each_choice(const Features& features, BsellPlan& plan, const Visit& visit) {
        plan.block = block(features);
        each_slicing(plan.tuning, BsellTuning::kMostWarps, visit);
    }
};

}  // namespace spmvgpu::roofline
