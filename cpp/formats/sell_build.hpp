// How sell is built; see builder.hpp.
#pragma once

#include <utility>

#include "formats/builder.hpp"
#include "formats/node_rows.hpp"
#include "formats/padding.hpp"
#include "formats/sell.hpp"

namespace spmvgpu {

namespace sell_choice {

// Windows that the automatic choice of sigma looks at. A small one keeps neighbouring rows, and so x, close together.
inline constexpr index_t kSigmas[] = {1, 256, 4096, 16384};
constexpr double kWorthSorting = 1.05;     // sort only if that saves more than this factor of the slots
constexpr double kWorthSortingFar = 1.25;  // and in windows beyond the first only from this padding on

// Warps for so many slices, of which the widest has so many columns of slots.
int choose_warps_per_slice(index_t slices, std::int64_t slots, std::int64_t widest, int processors);

}  // namespace sell_choice

template <class T, class Passes>
struct Builder<Sell<T>, Passes> {
    static constexpr index_t kSliceRows = Sell<T>::kSliceRows;

    static SellPlan plan_for(Passes& passes, const CsrMatrix<T>& csr, const SellTuning& tuning, const Target& target) {
        SellPlan plan = choose_layout(passes, csr, tuning);
        plan.cost.bytes = plan.slots * (sizeof(T) + sizeof(index_t)) + plan.slice_offsets.size() * sizeof(index_t) +
                          plan.permutation.bytes();
        plan.cost.slots = plan.slots;
        plan.cost.entries = plan.cost.gathers = csr.nnz;
        plan.cost.stores_in_order = plan.permutation.size() == 0;
        if (target.device.is_cuda()) plan.cost.launches = csr.rows > 0;
        check_padding(Sell<T>::kName, plan.cost, tuning.max_padding, csr.bytes());
        if (tuning.warps_per_slice == 0) {
            const std::int64_t* const offsets = plan.slice_offsets.data();
            const auto slices = static_cast<index_t>(plan.slice_offsets.size() - 1);
            const auto widest = largest<std::int64_t>(
                passes, slices, SPMVGPU_BODY(std::int64_t s) { return offsets[s + 1] - offsets[s]; });
            plan.tuning.warps_per_slice =
                sell_choice::choose_warps_per_slice(slices, plan.slots, widest / kSliceRows, target.processors);
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
        sell.slices = static_cast<index_t>(plan.slice_offsets.size()) - 1;
        sell.slice_offsets = passes.template make<index_t>(plan.slice_offsets.size());
        sell.col_indices = passes.template make<index_t>(plan.slots);
        sell.values = passes.template make<T>(plan.slots);
        sell.permutation = plan.permutation;
        sell.tuning = plan.tuning;
        if (plan.permutation.size() == 0) sell.node_rows = find_node_rows(passes, csr.rows, row_offsets, cols);
        index_t *const slice_offsets = sell.slice_offsets.data(), *const to_cols = sell.col_indices.data();
        T* const to_values = sell.values.data();
        const std::int64_t* const wide_offsets = plan.slice_offsets.data();
        passes.each(
            std::int64_t(sell.slices) + 1,
            SPMVGPU_BODY(std::int64_t s) { slice_offsets[s] = static_cast<index_t>(wide_offsets[s]); });
        const index_t* const permutation = plan.permutation.size() > 0 ? plan.permutation.data() : nullptr;
        const index_t rows = csr.rows;
        // The slices are to the slots what rows are to entries.
        passes.each_entry(
            sell.slices, slice_offsets, static_cast<index_t>(plan.slots), SPMVGPU_BODY(index_t slice, index_t slot) {
                const index_t in_slice = slot - slice_offsets[slice], i = slice * kSliceRows + in_slice % kSliceRows;
                const index_t row = i >= rows ? -1 : permutation == nullptr ? i : permutation[i];
                const index_t k = row < 0 ? 0 : row_offsets[row] + in_slice / kSliceRows;
                const bool is_padding = row < 0 || k >= row_offsets[row + 1];
                to_cols[slot] = is_padding ? -1 : cols[k];
                to_values[slot] = is_padding ? T(0) : values[k];
            });
        return sell;
    }

    // The layout with windows of sigma rows, which are sorted by descending length.
    static SellPlan lay_out(Passes& passes, const CsrMatrix<T>& csr, const SellTuning& tuning, index_t sigma) {
        const index_t rows = csr.rows, slices = rows / kSliceRows + (rows % kSliceRows != 0);
        const index_t* const row_offsets = csr.row_offsets.data();
        SellPlan plan{tuning, {}, {}, passes.template make<std::int64_t>(slices + std::size_t(1)), 0};
        plan.tuning.sigma = sigma;
        if (sigma > 1) {
            const auto longest = largest<index_t>(
                passes, rows, SPMVGPU_BODY(std::int64_t row) { return row_offsets[row + 1] - row_offsets[row]; });
            plan.permutation = passes.order_by_key(
                rows, sigma, longest,
                SPMVGPU_BODY(index_t row) { return longest - (row_offsets[row + 1] - row_offsets[row]); });
        }
        const index_t* const permutation = plan.permutation.size() > 0 ? plan.permutation.data() : nullptr;
        std::int64_t* const offsets = plan.slice_offsets.data();
        passes.each(
            slices,
            SPMVGPU_BODY(std::int64_t s) {
                index_t width = 0;
                for (std::int64_t i = s * kSliceRows; i < (s + 1) * kSliceRows && i < rows; ++i) {
                    const index_t row = permutation == nullptr ? static_cast<index_t>(i) : permutation[i];
                    const index_t length = row_offsets[row + 1] - row_offsets[row];
                    if (length > width) width = length;
                }
                offsets[s] = std::int64_t(width) * kSliceRows;
            },
            kSliceRows);
        plan.slots = passes.scan(offsets, slices);
        return plan;
    }

    static SellPlan choose_layout(Passes& passes, const CsrMatrix<T>& csr, const SellTuning& tuning) {
        using namespace sell_choice;
        if (tuning.sigma != 0) return lay_out(passes, csr, tuning, tuning.sigma);
        SellPlan best = lay_out(passes, csr, tuning, 1);
        for (const index_t candidate : kSigmas) {
            const bool sorted = best.tuning.sigma > 1;
            if (static_cast<double>(best.slots) <= (sorted ? kWorthSortingFar : kWorthSorting) * csr.nnz) break;
            SellPlan next = lay_out(passes, csr, tuning, candidate);
            if (kWorthSorting * next.slots < best.slots) best = std::move(next);
        }
        return best;
    }
};

}  // namespace spmvgpu
