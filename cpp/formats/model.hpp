// The operations of a product of a format, and their costs, for the model in planning/roofline.hpp.
//
// FormatModel<F> counts terms from the plans of format F. Where GeneralModel does not fit, formats/<f>/model.hpp
// specialises FormatModel and replaces the functions that differ. Each counts with the functions of Work, which know
// how kernels traverse a matrix, and no format. Costs are microseconds on the reference devices, see times.hpp.
#pragma once

#include <optional>

#include "core/options.hpp"
#include "formats/row_sample.hpp"
#include "formats/times.hpp"

namespace spmvgpu::roofline {

using times::Amount;
using times::kMillion;
using times::Machine;
using times::Terms;
using times::Work;

struct Subject {
    Features features;
    int item_bytes = 8;
    Machine machine;
};

template <class Format>
struct GeneralModel {
    using Plan = typename Format::Plan;

    static Terms on_gpu(const Work& work, const Plan&) {
        Terms terms = work.by_entries();
        terms[times::kSlots] = work.stored.slots / kMillion;
        return terms;
    }
    static Terms on_cpu(const Work& work, const Plan&) { return work.on_cpu(); }

    // Costs of coo on a GPU and of sell on the CPU, which stand for all formats without measurements.
    static constexpr bool kIsMeasured = false;
    static const Terms& gpu_costs(const Plan&) {
        static constexpr Terms kCosts = times::costs({{times::kLaunch, 3},
                                                      {times::kEmpty, 2.1},
                                                      {times::kMemory, 0.304},
                                                      {times::kCache, 0.211},
                                                      {times::kXMemory, 11.5},
                                                      {times::kXCache, 4.51},
                                                      {times::kEntries, 3.4},
                                                      {times::kRows, 6.29}});
        return kCosts;
    }
    static constexpr Terms kCpuCosts = times::costs({{times::kWake, 51.1},
                                                     {times::kMemory, 44.5},
                                                     {times::kSharedCache, 1.77},
                                                     {times::kXCache, 515},
                                                     {times::kSlots, 1.06e+03},
                                                     {times::kRows, 2.56e+03}});

    // Facts that hold before a matrix is planned: whether the format may hold it; the lowest number of slots in a plan
    // that has no more than the choices of each_choice(); and the size of the dense blocks of a band that stands for
    // the matrix.
    static bool may_hold(const Features&) { return true; }
    static double least_slots(const Features& features, const Plan&) { return features.nnz; }
    static index_t block(const Features&) { return 1; }

    // The format's promise for a matrix on the CPU, if that is a shorter time than in csr.
    static std::optional<Promise> promise(const RowSample&) { return {}; }

    // Calls visit() for every setting of the plan's open choices that a time depends on.
    template <class Visit>
    static void each_choice(const Features&, Plan&, const Visit& visit) {
        visit();
    }
};

template <class Format>
struct FormatModel : GeneralModel<Format> {};

template <class Format>
times::Time time_of(const Subject& subject, const Amount& stored, const typename Format::Plan& plan) {
    using Model = FormatModel<Format>;
    const Work work(subject.features, subject.item_bytes, subject.machine, stored);
    if (subject.machine.is_gpu) return times::time_of(Model::on_gpu(work, plan), Model::gpu_costs(plan), work.machine);
    return times::time_of(Model::on_cpu(work, plan), Model::kCpuCosts, work.machine);
}

template <class Visit>
void each_power_of_two(int& field, int most, const Visit& visit) {
    for (field = 1; field <= most; field *= 2) visit();
}

// Calls visit() for every choice that a tuning of slices may make: warps, and whether rows are sorted.
template <class Tuning, class Visit>
void each_slicing(Tuning& tuning, int most_warps, const Visit& visit) {
    constexpr int kInOrder = 1, kSorted = 16384;
    each_power_of_two(tuning.warps_per_slice, most_warps, [&] {
        for (const int sigma : {kInOrder, kSorted}) {
            tuning.sigma = sigma;
            visit();
        }
    });
}

}  // namespace spmvgpu::roofline
