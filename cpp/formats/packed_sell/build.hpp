#pragma once

#include "formats/builder.hpp"
#include "formats/feature_passes.hpp"
#include "formats/packed_sell/encode.hpp"
#include "formats/packed_sell/layout.hpp"
#include "formats/packed_sell/sample.hpp"
#include "formats/padding.hpp"
#include "formats/shared/slices_build.hpp"

namespace spmvgpu {

template <class T, class Passes>
struct Builder<PackedSell<T>, Passes> {
    using Lanes = typename Passes::Lanes;
    using Reader = packed::SliceReader<T, Lanes>;
    using Source = packed::SliceSource<T>;
    using Layout = packed::SliceLayout;
    using Plan = PackedSellPlan<T>;

    // Lanes without an entry take no memory, only time, and rows that are far apart need wider columns.
    static constexpr double kWorthSorting = 1.25;
    // Nanoseconds to lay out a slot, per lane, and to write it as well.
    static constexpr std::int64_t kNanosecondsPerLane = 8;

    static Plan plan_for(Passes& passes, const CsrMatrix<T>& csr, const PackedSellTuning& tuning,
                         const Target& target) {
        using namespace packed;
        Plan plan;
        plan.tuning = tuning;
        const SliceTimes times({.costs = kPackedSellCosts,
                                .asked_warps = tuning.warps_per_slice,
                                .most_warps = 8,
                                .slot_bytes = sizeof(T) + sizeof(std::uint16_t),
                                .max_padding = tuning.max_padding,
                                .worth_sorting = kWorthSorting},
                               feature_passes::for_options(passes, any_csr(csr), target), sizeof(T), target);
        plan.slices = cut_into_slices(passes, csr.rows, csr.nnz, csr.row_offsets.data(), tuning.sigma, times);
        plan.tuning.sigma = plan.slices.sigma;
        plan.cost.slots = plan.slices.slots;  // at most a quarter more will be laid out
        plan.cost.entries = plan.cost.gathers = csr.nnz;
        plan.cost.bytes = csr.bytes() + plan.slices.slots / kLanes * sizeof(std::int32_t);  // if nothing is packed
        check_padding(PackedSell<T>::kName, plan.cost, tuning.max_padding, csr.bytes());

        plan.dictionary = find_dictionary(sample_values(passes, csr));
        const Array<CodeTable<T>> table = place_codes(passes, plan);
        const Source source = source_of(csr, plan, table);
        const ModeCounts& counts = plan.counts = lay_out_slices(passes, source, plan);
        if (counts.of(ValueMode::kDictionary) == 0) plan.dictionary.clear();

        plan.cost.slots = counts.slots * kLanes;
        plan.cost.bytes = plan.granules * kGranule + plan.heads.bytes() + plan.dictionary.size() * sizeof(T) +
                          plan.slices.permutation.bytes();
        plan.cost.stores_in_order = plan.slices.permutation.size() == 0;
        if (target.device.is_gpu()) plan.cost.launches = csr.rows > 0;
        plan.tuning.warps_per_slice = times.fastest_warps(plan.slices, static_cast<double>(plan.cost.bytes));
        return plan;
    }

    static PackedSell<T> from_csr(Passes& passes, const CsrMatrix<T>& csr, const Plan& plan) {
        using namespace packed;
        PackedSell<T> packed;
        packed.rows = csr.rows;
        packed.cols = csr.cols;
        packed.nnz = csr.nnz;
        packed.slices = plan.slices.count();
        packed.heads = plan.heads;
        packed.stream = passes.template make<Byte>(plan.granules * kGranule);
        packed.dictionary = Array<T>::from(plan.dictionary).to(csr.row_offsets.device());
        packed.permutation = plan.slices.permutation;
        packed.tuning = plan.tuning;
        Byte* const stream = packed.stream.data();
        using Eight = std::uint64_t;
        passes.fill(reinterpret_cast<Eight*>(stream), plan.granules * (kGranule / sizeof(Eight)), Eight(0));
        const Array<CodeTable<T>> table = place_codes(passes, plan);
        const Source source = source_of(csr, plan, table);
        const std::uint64_t* const heads = plan.heads.data();
        passes.each_in_step(
            packed.slices,
            [=] SPMVGPU_BODY(const Lanes& lanes, std::int64_t s) {
                const Head head = head_of({heads[kHeadWords * s], heads[kHeadWords * s + 1]});
                const auto start = static_cast<std::int64_t>(head.position) * kGranule;
                const Reader reader(lanes, source, static_cast<index_t>(s));
                put_slice(lanes, reader, lay_out(lanes, reader, source.coder), source.coder, StoreSink{stream + start});
            },
            work_of(plan));
        return packed;
    }

    // Samples values from the whole matrix, the same ones every time. Public, because nvcc takes no lambdas for the GPU
    // from private functions.
    static std::vector<T> sample_values(Passes& passes, const CsrMatrix<T>& csr) {
        constexpr index_t kSample = 4096;
        const std::int64_t nnz = csr.nnz, count = csr.nnz < kSample ? csr.nnz : kSample;
        Array<T> sample = passes.template scratch<T>(count);
        T* const to = sample.data();
        const T* const values = csr.values.data();
        passes.each(count, [=] SPMVGPU_BODY(std::int64_t i) { to[i] = values[sample_place(nnz, count, i)]; });
        return passes.read_all(sample);
    }

    static Array<packed::CodeTable<T>> place_codes(Passes& passes, const Plan& plan) {
        Array<packed::CodeTable<T>> table = passes.template scratch<packed::CodeTable<T>>(!plan.dictionary.empty());
        if (!plan.dictionary.empty()) {
            const packed::CodeTable<T> made = packed::code_table(plan.dictionary);
            passes.write_all(table, &made);
        }
        return table;
    }

    static Source source_of(const CsrMatrix<T>& csr, const Plan& plan, const Array<packed::CodeTable<T>>& table) {
        return {csr.rows,
                csr.row_offsets.data(),
                csr.col_indices.data(),
                csr.values.data(),
                plan.slices.permutation.size() > 0 ? plan.slices.permutation.data() : nullptr,
                {table.size() > 0 ? table.data() : nullptr}};
    }

    static std::int64_t work_of(const Plan& plan) {
        return kNanosecondsPerLane * (plan.slices.slots / (plan.slices.count() + 1) + packed::kLanes);
    }

    // Computes the heads, the size of the stream, and the modes of the slots.
    static packed::ModeCounts lay_out_slices(Passes& passes, const Source& source, Plan& plan) {
        using namespace packed;
        const index_t slices = plan.slices.count();
        plan.heads = passes.template make<std::uint64_t>(std::size_t(kHeadWords) * slices);
        std::uint64_t* const heads = plan.heads.data();
        Array<std::int64_t> sizes = passes.template scratch<std::int64_t>(slices + std::size_t(1));
        std::int64_t* const granules = sizes.data();
        Array<ModeCounts> of_slices = passes.template scratch<ModeCounts>(slices);
        ModeCounts* const counts = of_slices.data();
        passes.each_in_step(
            slices,
            [=] SPMVGPU_BODY(const Lanes& lanes, std::int64_t s) {
                const Reader reader(lanes, source, static_cast<index_t>(s));
                const Layout layout = lay_out(lanes, reader, source.coder);
                const HeadWords words = words_of(layout.head);
                lanes.once([&] {
                    heads[kHeadWords * s] = words.masks;
                    heads[kHeadWords * s + 1] = words.rest;
                    granules[s] = layout.bytes / kGranule;
                    counts[s] = layout.counts;
                });
            },
            work_of(plan));
        plan.granules = passes.scan(granules, slices);
        passes.each(slices, [=] SPMVGPU_BODY(std::int64_t s) {
            heads[kHeadWords * s + 1] += static_cast<std::uint64_t>(granules[s]);  // from 0
        });
        return passes.template reduce<ModeCounts>(slices, [=] SPMVGPU_BODY(std::int64_t s) { return counts[s]; });
    }
};

}  // namespace spmvgpu
