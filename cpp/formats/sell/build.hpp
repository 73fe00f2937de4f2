#pragma once

#include <utility>

#include "formats/builder.hpp"
#include "formats/feature_passes.hpp"
#include "formats/padding.hpp"
#include "formats/sell/layout.hpp"
#include "formats/shared/node_rows.hpp"
#include "formats/shared/slices_build.hpp"

namespace spmvgpu {

// The slots of sell: the slots of a lane hold the entries of its row, in order.
struct SellSlots {
    index_t rows;
    const index_t* slice_offsets;
    const index_t* permutation;  // nullptr where rows are in order
    const index_t* row_offsets;

    // The position of the slot's entry in CSR order; -1 if it is padding.
    constexpr index_t entry_in(index_t slice, index_t slot) const {
        const index_t in_slice = slot - slice_offsets[slice], i = slice * kSliceLanes + in_slice % kSliceLanes;
        if (i >= rows) return -1;
        const index_t row = permutation == nullptr ? i : permutation[i];
        const index_t k = row_offsets[row] + in_slice / kSliceLanes;
        return k < row_offsets[row + 1] ? k : -1;
    }
};

template <class T, class Passes>
struct Builder<Sell<T>, Passes> {
    static constexpr index_t kSliceRows = Sell<T>::kSliceRows;

    static SellPlan plan_for(Passes& passes, const CsrMatrix<T>& csr, const SellTuning& tuning, const Target& target) {
        const index_t* const row_offsets = csr.row_offsets.data();
        const SliceTimes times({.costs = kSellCosts,
                                .asked_warps = tuning.warps_per_slice,
                                .most_warps = 32,
                                .slot_bytes = sizeof(T) + sizeof(index_t),
                                .max_padding = tuning.max_padding},
                               feature_passes::for_options(passes, any_csr(csr), target), sizeof(T), target);
        SellPlan plan{tuning, {}, cut_into_slices(passes, csr.rows, csr.nnz, row_offsets, tuning.sigma, times)};
        const Slices& slices = plan.slices;
        plan.tuning.sigma = slices.sigma;
        plan.cost.bytes = slices.slots * (sizeof(T) + sizeof(index_t)) + slices.offsets.size() * sizeof(index_t) +
                          slices.permutation.bytes();
        plan.cost.slots = slices.slots;
        plan.cost.entries = plan.cost.gathers = csr.nnz;
        plan.cost.stores_in_order = slices.permutation.size() == 0;
        if (target.device.is_gpu()) plan.cost.launches = csr.rows > 0;
        check_padding(Sell<T>::kName, plan.cost, tuning.max_padding, csr.bytes());
        plan.tuning.warps_per_slice = times.fastest_warps(slices, static_cast<double>(plan.cost.bytes));
        return plan;
    }

    static Sell<T> from_csr(Passes& passes, const CsrMatrix<T>& csr, const SellPlan& plan) {
        const index_t* const row_offsets = csr.row_offsets.data();
        const index_t* const cols = csr.col_indices.data();
        Sell<T> sell;
        sell.rows = csr.rows;
        sell.cols = csr.cols;
        sell.nnz = csr.nnz;
        sell.slices = plan.slices.count();
        sell.slice_offsets = passes.template make<index_t>(plan.slices.offsets.size());
        sell.col_indices = passes.template make<index_t>(plan.slices.slots);
        sell.values = passes.template make<T>(plan.slices.slots);
        sell.permutation = plan.slices.permutation;
        sell.tuning = plan.tuning;
        if (plan.slices.permutation.size() == 0) sell.node_rows = find_node_rows(passes, csr.rows, row_offsets, cols);
        index_t *const slice_offsets = sell.slice_offsets.data(), *const to = sell.col_indices.data();
        const std::int64_t* const wide_offsets = plan.slices.offsets.data();
        passes.each(std::int64_t(sell.slices) + 1,
                    [=] SPMVGPU_BODY(std::int64_t s) { slice_offsets[s] = static_cast<index_t>(wide_offsets[s]); });
        const SellSlots slots = slots_of(sell, row_offsets);
        // Slices contain slots as rows contain entries.
        passes.each_entry(sell.slices, slice_offsets, static_cast<index_t>(plan.slices.slots),
                          [=] SPMVGPU_BODY(index_t slice, index_t slot) {
                              const index_t k = slots.entry_in(slice, slot);
                              to[slot] = k < 0 ? -1 : cols[k];
                          });
        store_values(passes, sell, row_offsets, csr.values.data());
        return sell;
    }

    // The map says where rows begin in CSR order.
    static Array<index_t> find_value_map(Passes& passes, const Sell<T>& sell) {
        constexpr std::int64_t kNanosecondsPerRow = 40;
        const index_t* const permutation = permutation_of(sell);
        const index_t *const slice_offsets = sell.slice_offsets.data(), *const cols = sell.col_indices.data();
        Array<index_t> map = passes.template make<index_t>(sell.rows + std::size_t(1));
        index_t* const lengths = map.data();
        passes.each(
            sell.rows,
            [=] SPMVGPU_BODY(std::int64_t i) {
                const index_t begin = slice_offsets[i / kSliceRows], end = slice_offsets[i / kSliceRows + 1];
                const index_t* const first = cols + begin + i % kSliceRows;
                // The first slot of the lane that is padding.
                index_t length = 0, beyond = (end - begin) / kSliceRows;
                while (length < beyond) {
                    const index_t middle = length + (beyond - length) / 2;
                    if (first[middle * kSliceRows] >= 0) {
                        length = middle + 1;
                    } else {
                        beyond = middle;
                    }
                }
                lengths[permutation == nullptr ? i : permutation[i]] = length;
            },
            kNanosecondsPerRow);
        passes.scan(lengths, sell.rows);
        return map;
    }

    static void store_values(Passes& passes, Sell<T>& sell, const index_t* row_offsets, const T* values) {
        const SellSlots slots = slots_of(sell, row_offsets);
        T* const to = sell.values.data();
        passes.each_entry(sell.slices, slots.slice_offsets, static_cast<index_t>(sell.values.size()),
                          [=] SPMVGPU_BODY(index_t slice, index_t slot) {
                              const index_t k = slots.entry_in(slice, slot);
                              to[slot] = k < 0 ? T(0) : values[k];
                          });
    }

    static SellSlots slots_of(const Sell<T>& sell, const index_t* row_offsets) {
        return {sell.rows, sell.slice_offsets.data(), permutation_of(sell), row_offsets};
    }

    static const index_t* permutation_of(const Sell<T>& sell) {
        return sell.permutation.size() > 0 ? sell.permutation.data() : nullptr;
    }
};

}  // namespace spmvgpu
