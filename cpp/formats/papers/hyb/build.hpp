#pragma once

#include <algorithm>

#include "formats/coo/build.hpp"
#include "formats/papers/ell/build.hpp"
#include "formats/papers/hyb/layout.hpp"

namespace spmvgpu {

// Counts the rows that reach each of several widths in one pass, because a GPU is waited for after each pass.
struct RowsReaching {
    static constexpr int kWidths = 8;
    std::int64_t counts[kWidths] = {};

    constexpr RowsReaching& operator+=(const RowsReaching& other) {
        for (int i = 0; i < kWidths; ++i) counts[i] += other.counts[i];
        return *this;
    }
};

// The widest ELL part whose columns are all worth their padding, because enough rows reach them. Bell and Garland: ELL
// moves its slots about three times as fast as COO its entries, given rows enough to fill the device.
template <class Passes>
index_t choose_ell_width(Passes& passes, index_t rows, const index_t* row_offsets) {
    constexpr index_t kSpeedOfEll = 3, kRowsToFillDevice = 4096;
    const index_t third = rows / kSpeedOfEll + (rows % kSpeedOfEll != 0);
    const index_t enough = third > kRowsToFillDevice ? third : kRowsToFillDevice;
    if (enough > rows) return 0;
    // The wider the part, the fewer rows reach it, so the search is between a width that enough rows reach and one that
    // too few do.
    const auto longest = largest<index_t>(
        passes, rows, [=] SPMVGPU_BODY(std::int64_t row) { return row_offsets[row + 1] - row_offsets[row]; });
    constexpr int kWidths = RowsReaching::kWidths;
    std::int64_t reached = 0, missed = std::int64_t(longest) + 1;
    while (missed - reached > 1) {
        const std::int64_t step = (missed - reached + kWidths) / (kWidths + 1);
        const auto there = passes.template reduce<RowsReaching>(rows, [=] SPMVGPU_BODY(std::int64_t row) {
            const index_t length = row_offsets[row + 1] - row_offsets[row];
            RowsReaching reaching;
            for (int i = 0; i < kWidths; ++i) reaching.counts[i] = length >= reached + (i + 1) * step;
            return reaching;
        });
        int passed = 0;
        while (passed < kWidths && reached + (passed + 1) * step < missed && there.counts[passed] >= enough) ++passed;
        missed = std::min(missed, reached + (passed + 1) * step);
        reached += passed * step;
    }
    return static_cast<index_t>(reached);
}

template <class T, class Passes>
struct Builder<Hyb<T>, Passes> {
    static HybPlan plan_for(Passes& passes, const CsrMatrix<T>& csr, const HybTuning& tuning, const Target& target) {
        const index_t* const row_offsets = csr.row_offsets.data();
        const index_t rows = csr.rows;
        const index_t width = choose_width(passes, csr, tuning.width);
        const std::int64_t slots = width * aligned_pitch(rows);
        HybPlan plan{tuning, {}, width, {tuning.ell, {}, {rows, 1, width, aligned_pitch(rows)}}, {}, {}};
        CsrMatrix<T> rest;  // the pattern of the COO part, without its entries
        rest.rows = rows;
        rest.row_offsets = passes.template scratch<index_t>(rows + std::size_t(1));
        index_t* const rest_offsets = rest.row_offsets.data();
        passes.each(rows, [=] SPMVGPU_BODY(std::int64_t row) {
            const index_t length = row_offsets[row + 1] - row_offsets[row];
            rest_offsets[row] = length > width ? length - width : 0;
        });
        rest.nnz = passes.scan(rest_offsets, rows);
        plan.rest_offsets = rest.row_offsets;
        plan.coo = Builder<Coo<T>, Passes>::plan_for(passes, rest, tuning.coo, target);
        plan.tuning.coo = plan.coo.tuning;
        if (tuning.width == 0) plan.tuning.width = width;
        plan.cost.bytes = slots * (sizeof(T) + sizeof(index_t)) + plan.coo.cost.bytes;
        plan.cost.slots = slots + rest.nnz;
        plan.cost.entries = plan.cost.gathers = csr.nnz;
        check_padding(Hyb<T>::kName, plan.cost, tuning.ell.max_padding, csr.bytes());
        // Rows without entries in the COO part keep the result of the ELL part.
        plan.coo.cost.launches -= target.device.is_gpu() && plan.coo.has_empty_rows;
        plan.coo.has_empty_rows = false;
        if (target.device.is_gpu()) plan.cost.launches = (rows > 0) + plan.coo.cost.launches;
        return plan;
    }

    static Hyb<T> from_csr(Passes& passes, const CsrMatrix<T>& csr, const HybPlan& plan) {
        const index_t width = plan.width;
        const auto rest = static_cast<index_t>(plan.coo.cost.entries);
        EllSlots<T> slots = build_slots(passes, csr, plan.ell.shape, width);
        Array<index_t> row_indices = passes.template make<index_t>(rest);
        Array<index_t> col_indices = passes.template make<index_t>(rest);
        index_t *const to_rows = row_indices.data(), *const to_cols = col_indices.data();
        const index_t *const row_offsets = csr.row_offsets.data(), *const cols = csr.col_indices.data();
        const index_t* const rest_offsets = plan.rest_offsets.data();
        passes.each_entry(csr.rows, row_offsets, rest > 0 ? csr.nnz : 0, [=] SPMVGPU_BODY(index_t row, index_t k) {
            const index_t number = k - row_offsets[row] - width;
            if (number < 0) return;
            const index_t to = rest_offsets[row] + number;
            to_rows[to] = row;
            to_cols[to] = cols[k];
        });
        Coo<T> coo{csr.rows,
                   csr.cols,
                   rest,
                   plan.coo.has_empty_rows,
                   row_indices,
                   col_indices,
                   passes.template make<T>(rest),
                   plan.coo.spans,
                   plan.coo.tuning};
        store_rest(passes, coo, row_offsets, rest_offsets, width, csr.values.data());
        Ellpack<T> ell{csr.rows, csr.cols, csr.nnz - rest, slots, {}, plan.ell.tuning};
        return {csr.rows, csr.cols, csr.nnz, ell, coo, plan.tuning};
    }

    // The map says where rows begin in CSR order, and then where they begin in the COO part.
    static Array<index_t> find_value_map(Passes& passes, const Hyb<T>& hyb) {
        constexpr std::int64_t kNanosecondsPerRow = 40;
        const index_t rows = hyb.rows, rest = hyb.coo.nnz;
        const index_t* const rest_rows = hyb.coo.row_indices.data();
        const index_t* const cols = hyb.ell.slots.col_indices.data();
        const EllShape shape = hyb.ell.slots.shape;
        Array<index_t> map = passes.template make<index_t>(2 * (rows + std::size_t(1)));
        index_t *const row_offsets = map.data(), *const rest_offsets = row_offsets + rows + 1;
        passes.each(
            std::int64_t(rows) + 1,
            [=] SPMVGPU_BODY(std::int64_t row) {
                rest_offsets[row] = static_cast<index_t>(first_not_below(rest_rows, 0, rest, row));
            },
            kNanosecondsPerRow);
        passes.each(
            rows,
            [=] SPMVGPU_BODY(std::int64_t row) {
                row_offsets[row] =
                    count_in_slots(cols, shape, static_cast<index_t>(row)) + rest_offsets[row + 1] - rest_offsets[row];
            },
            kNanosecondsPerRow);
        passes.scan(row_offsets, rows);
        return map;
    }

    static void store_values(Passes& passes, Hyb<T>& hyb, const index_t* map, const T* values) {
        const index_t width = hyb.ell.slots.shape.width;
        store_slot_values(passes, hyb.ell.slots, map, values);
        store_rest(passes, hyb.coo, map, map + hyb.rows + 1, width, values);
    }

    // Puts the values that are not among the first `width` of their row into the COO part.
    static void store_rest(Passes& passes, Coo<T>& coo, const index_t* row_offsets, const index_t* rest_offsets,
                           index_t width, const T* values) {
        const index_t* const rest_rows = coo.row_indices.data();
        T* const to = coo.values.data();
        passes.each(coo.nnz, [=] SPMVGPU_BODY(std::int64_t i) {
            const index_t row = rest_rows[i];
            to[i] = values[row_offsets[row] + width + i - rest_offsets[row]];
        });
    }

    // The requested width, bounded by the longest row; 0 chooses.
    static index_t choose_width(Passes& passes, const CsrMatrix<T>& csr, int asked) {
        const index_t* const row_offsets = csr.row_offsets.data();
        if (asked == 0) return choose_ell_width(passes, csr.rows, row_offsets);
        const auto longest = largest<index_t>(
            passes, csr.rows, [=] SPMVGPU_BODY(std::int64_t row) { return row_offsets[row + 1] - row_offsets[row]; });
        return longest < asked ? longest : asked;
    }
};

}  // namespace spmvgpu
