// How sell is built; see builder.hpp.
#pragma once

#include <utility>

#include "formats/builder.hpp"
#include "formats/node_rows.hpp"
#include "formats/padding.hpp"
#include "formats/sell.hpp"
#include "formats/slices_build.hpp"

namespace spmvgpu {

constexpr double kWorthSortingSell = 1.05;  // sort only if that saves more than this factor of the slots

template <class T, class Passes>
struct Builder<Sell<T>, Passes> {
    static constexpr index_t kSliceRows = Sell<T>::kSliceRows;

    static SellPlan plan_for(Passes& passes, const CsrMatrix<T>& csr, const SellTuning& tuning, const Target& target) {
        const index_t* const row_offsets = csr.row_offsets.data();
        SellPlan plan{
            tuning, {}, cut_into_slices(passes, csr.rows, csr.nnz, row_offsets, tuning.sigma, kWorthSortingSell)};
        const Slices& slices = plan.slices;
        plan.tuning.sigma = slices.sigma;
        plan.cost.bytes = slices.slots * (sizeof(T) + sizeof(index_t)) + slices.offsets.size() * sizeof(index_t) +
                          slices.permutation.bytes();
        plan.cost.slots = slices.slots;
        plan.cost.entries = plan.cost.gathers = csr.nnz;
        plan.cost.stores_in_order = slices.permutation.size() == 0;
        if (target.device.is_cuda()) plan.cost.launches = csr.rows > 0;
        check_padding(Sell<T>::kName, plan.cost, tuning.max_padding, csr.bytes());
        if (tuning.warps_per_slice == 0) {
            plan.tuning.warps_per_slice = warps_per_slice(passes, slices, target.processors);
        }
        return plan;
    }

    static Sell<T> from_csr(Passes& passes, const CsrMatrix<T>& csr, const SellPlan& plan) {
        const index_t* const row_offsets = csr.row_offsets.data();
        const index_t* const cols = csr.col_indices.data();
        const T* const values = csr.values.data();
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
        index_t *const slice_offsets = sell.slice_offsets.data(), *const to_cols = sell.col_indices.data();
        T* const to_values = sell.values.data();
        const std::int64_t* const wide_offsets = plan.slices.offsets.data();
        passes.each(
            std::int64_t(sell.slices) + 1,
            SPMVGPU_BODY(std::int64_t s) { slice_offsets[s] = static_cast<index_t>(wide_offsets[s]); });
        const index_t* const permutation =
            plan.slices.permutation.size() > 0 ? plan.slices.permutation.data() : nullptr;
        const index_t rows = csr.rows;
        // The slices are to the slots what rows are to entries.
        passes.each_entry(
            sell.slices, slice_offsets, static_cast<index_t>(plan.slices.slots),
            SPMVGPU_BODY(index_t slice, index_t slot) {
                const index_t in_slice = slot - slice_offsets[slice], i = slice * kSliceRows + in_slice % kSliceRows;
                const index_t row = i >= rows ? -1 : permutation == nullptr ? i : permutation[i];
                const index_t k = row < 0 ? 0 : row_offsets[row] + in_slice / kSliceRows;
                const bool is_padding = row < 0 || k >= row_offsets[row + 1];
                to_cols[slot] = is_padding ? -1 : cols[k];
                to_values[slot] = is_padding ? T(0) : values[k];
            });
        return sell;
    }
};

}  // namespace spmvgpu
