// How packed_sell is built; see formats/builder.hpp.
#pragma once

#include "formats/builder.hpp"
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

    // Lanes without an entry take no memory, only time; and rows that are far apart need wider columns.
    static constexpr double kWorthSorting = 1.25;
    // Nanoseconds that laying out takes per slot of a lane, and writing as well.
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
                               csr.pattern(), sizeof(T), target);
        plan.slices = cut_into_slices(passes, csr.rows, csr.nnz, csr.row_offsets.data(), tuning.sigma, times);
        plan.tuning.sigma = plan.slices.sigma;
        plan.cost.slots = plan.slices.slots;  // at most a quarter more will be laid out
        plan.cost.entries = plan.cost.gathers = csr.nnz;
        plan.cost.bytes = csr.bytes() + plan.slices.slots / kLanes * sizeof(std::int32_t);  // if nothing is packed
        check_padding(PackedSell<T>::kName, plan.cost, tuning.max_padding, csr.bytes());

        const std::vector<T> sample = sample_values(passes, csr);
        plan.dictionary = find_dictionary(sample);
        plan.scale = find_scale(sample);
        const Array<CodeTable<T>> table = place_codes(passes, plan);
        const Source source = source_of(csr, plan, table);
        const ModeCounts& counts = plan.counts = lay_out_slices(passes, source, plan);
        if (counts.of(ValueMode::kDictionary) == 0) plan.dictionary.clear();
        if (counts.of(ValueMode::kInt16) == 0) plan.scale = 0;

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
        packed.scale = plan.scale;
        packed.tuning = plan.tuning;
        using Eight = std::uint64_t;
        constexpr std::int64_t kEights = kGranule / sizeof(Eight);
        const std::int64_t common = static_cast<std::int64_t>(plan.common.size());
        Byte* const stream = packed.stream.data();
        auto* const eights = reinterpret_cast<Eight*>(stream);
        const auto* const from = reinterpret_cast<const Eight*>(plan.common.data());
        passes.each(plan.granules * kEights, [=] SPMVGPU_BODY(std::int64_t i) {
            eights[i] = i < common / std::int64_t(sizeof(Eight)) ? from[i] : Eight(0);
        });
        const Array<CodeTable<T>> table = place_codes(passes, plan);
        const Source source = source_of(csr, plan, table);
        const std::uint64_t* const heads = plan.heads.data();
        passes.each_in_step(
            packed.slices,
            [=] SPMVGPU_BODY(const Lanes& lanes, std::int64_t s) {
                const Head head = head_of({heads[kHeadWords * s], heads[kHeadWords * s + 1]});
                const auto start = static_cast<std::int64_t>(head.position) * kGranule;
                if (start < common) return;  // a part that is there already, or none
                const Reader reader(lanes, source, static_cast<index_t>(s));
                StoreSink sink{stream + start};
                put_slice(lanes, reader, lay_out(lanes, reader, source.coder), source.coder, sink);
            },
            work_of(plan));
        return packed;
    }

    // Public, as all of this is: nvcc takes no lambdas for the GPU from private functions.
    // Values from everywhere, the same ones every time.
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
                {table.size() > 0 ? table.data() : nullptr, plan.scale}};
    }

    static std::int64_t work_of(const Plan& plan) {
        return kNanosecondsPerLane * (plan.slices.slots / (plan.slices.count() + 1) + packed::kLanes);
    }

    // What a slice's part follows from.
    static SPMVGPU_IN_BODY packed::PartKey key_of(const Lanes& lanes, const Reader& reader, const Layout& layout,
                                                  const packed::ValueCoder<T>& coder) {
        packed::HashSink sink;
        packed::put_slice(lanes, reader, layout, coder, sink);
        return {packed::words_of(layout.head), lanes.sum(sink.hash), layout.bytes};
    }

    // Slices from everywhere, the same ones every time, in which most of those are seen that come up often.
    static std::vector<packed::CommonPart> sample_parts(Passes& passes, const Source& source, Plan& plan) {
        using namespace packed;
        constexpr index_t kMostSlices = 512, kOneIn = 4;
        const index_t slices = plan.slices.count();
        const index_t count = slices / kOneIn < kMostSlices ? slices / kOneIn : kMostSlices;
        Array<PartKey> keys = passes.template scratch<PartKey>(count);
        PartKey* const to = keys.data();
        passes.each_in_step(
            count,
            [=] SPMVGPU_BODY(const Lanes& lanes, std::int64_t i) {
                const Reader reader(lanes, source, static_cast<index_t>(sample_place(slices, count, i)));
                const PartKey key = key_of(lanes, reader, lay_out(lanes, reader, source.coder), source.coder);
                lanes.once([&] { to[i] = key; });
            },
            work_of(plan));
        std::vector<CommonPart> parts = find_common_parts(passes.read_all(keys));
        for (CommonPart& part : parts) part.sample = sample_place(slices, count, part.sample);
        return parts;
    }

    // Heads, common parts and the size of the stream; how slots are stored.
    static packed::ModeCounts lay_out_slices(Passes& passes, const Source& source, Plan& plan) {
        using namespace packed;
        const index_t slices = plan.slices.count();
        const std::vector<CommonPart> found = sample_parts(passes, source, plan);
        const auto parts_count = static_cast<std::int64_t>(found.size());
        const std::int64_t common_granules =
            found.empty() ? 0 : found.back().position + found.back().key.bytes / kGranule;
        Array<CommonPart> placed = passes.template scratch<CommonPart>(found.size());
        passes.write_all(placed, found.data());
        const CommonPart* const parts = placed.data();
        plan.common = passes.template make<Byte>(common_granules * kGranule);
        Byte* const common = plan.common.data();
        passes.fill(common, common_granules * kGranule, Byte(0));
        passes.each_in_step(
            parts_count,
            [=] SPMVGPU_BODY(const Lanes& lanes, std::int64_t p) {
                const Reader reader(lanes, source, static_cast<index_t>(parts[p].sample));
                StoreSink sink{common + parts[p].position * kGranule};
                put_slice(lanes, reader, lay_out(lanes, reader, source.coder), source.coder, sink);
            },
            work_of(plan));

        plan.heads = passes.template make<std::uint64_t>(std::size_t(kHeadWords) * slices);
        std::uint64_t* const heads = plan.heads.data();
        Array<std::int64_t> sizes = passes.template scratch<std::int64_t>(slices + std::size_t(1));
        std::int64_t* const granules = sizes.data();  // of its own, that a slice takes
        Array<ModeCounts> of_slices = passes.template scratch<ModeCounts>(slices);
        ModeCounts* const counts = of_slices.data();
        passes.each_in_step(
            slices,
            [=] SPMVGPU_BODY(const Lanes& lanes, std::int64_t s) {
                const Reader reader(lanes, source, static_cast<index_t>(s));
                Layout layout = lay_out(lanes, reader, source.coder);
                const HeadWords words = words_of(layout.head);
                bool is_known = false, has_key = false;
                PartKey key{};
                for (std::int64_t p = 0; p < parts_count && !is_known; ++p) {
                    if (!(parts[p].key.head == words) || parts[p].key.bytes != layout.bytes) continue;
                    if (!has_key) key = key_of(lanes, reader, layout, source.coder);
                    has_key = true;
                    if (parts[p].key.hash != key.hash) continue;
                    CompareSink sink{common + parts[p].position * kGranule};
                    put_slice(lanes, reader, layout, source.coder, sink);
                    is_known = lanes.sum(sink.differs) == 0;
                    if (is_known) layout.head.position = static_cast<std::uint64_t>(parts[p].position);
                }
                layout.counts.alike = is_known;
                const HeadWords placed_words = words_of(layout.head);
                lanes.once([&] {
                    heads[kHeadWords * s] = placed_words.masks;
                    heads[kHeadWords * s + 1] = placed_words.rest;
                    granules[s] = is_known ? 0 : layout.bytes / kGranule;
                    counts[s] = layout.counts;
                });
            },
            work_of(plan));
        plan.granules = common_granules + passes.scan(granules, slices);
        passes.each(slices, [=] SPMVGPU_BODY(std::int64_t s) {
            if (granules[s] == granules[s + 1]) return;
            heads[kHeadWords * s + 1] += static_cast<std::uint64_t>(common_granules + granules[s]);  // from 0
        });
        return passes.template reduce<ModeCounts>(slices, [=] SPMVGPU_BODY(std::int64_t s) { return counts[s]; });
    }
};

}  // namespace spmvgpu
