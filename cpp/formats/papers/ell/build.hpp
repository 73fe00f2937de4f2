#pragma once

#include "core/passes/csr_passes.hpp"
#include "formats/builder.hpp"
#include "formats/papers/ellpack/layout.hpp"
#include "formats/papers/ellpack_r/layout.hpp"
#include "formats/papers/ellr_t/layout.hpp"
#include "formats/shared/node_rows.hpp"

namespace spmvgpu {

int choose_threads(index_t rows, index_t nnz);

// The smallest shape that holds the longest row.
template <class Passes>
EllShape fit_shape(Passes& passes, index_t rows, const index_t* row_offsets, int threads_per_row) {
    const auto longest = largest<index_t>(
        passes, rows, [=] SPMVGPU_BODY(std::int64_t row) { return row_offsets[row + 1] - row_offsets[row]; });
    const index_t width = longest / threads_per_row + (longest % threads_per_row != 0);
    return {rows, threads_per_row, width, aligned_pitch(std::int64_t(rows) * threads_per_row)};
}

// Puts values into the slots of their rows, and 0 into the others, in the order of groups of neighbouring rows, so that
// the values of a row are read together.
template <class T, class Passes>
void store_slot_values(Passes& passes, EllSlots<T>& ell, const index_t* row_offsets, const T* values) {
    constexpr int kGroup = 32;
    const EllShape shape = ell.shape;
    const std::int64_t of_group = std::int64_t(shape.width) * kGroup;
    T* const to = ell.values.data();
    passes.each(shape.slots(), [=] SPMVGPU_BODY(std::int64_t i) {
        const std::int64_t group = i / of_group, in_group = i % of_group, column = in_group / kGroup;
        const std::int64_t thread = group * kGroup + in_group % kGroup, row = thread / shape.threads_per_row;
        T value = T(0);
        if (row < shape.rows) {
            const std::int64_t k = row_offsets[row] + column * shape.threads_per_row + thread % shape.threads_per_row;
            if (k < row_offsets[row + 1]) value = values[k];
        }
        to[column * shape.pitch + thread] = value;
    });
}

// The first `most` entries of every row in slots; all of them by default.
template <class T, class Passes>
EllSlots<T> build_slots(Passes& passes, const CsrMatrix<T>& csr, const EllShape& shape, index_t most = kAllEntries) {
    const std::int64_t slots = shape.slots();
    const index_t* const row_offsets = csr.row_offsets.data();
    const index_t* const cols = csr.col_indices.data();
    EllSlots<T> ell{shape, passes.template make<index_t>(slots), passes.template make<T>(slots),
                    find_node_rows(passes, csr.rows, row_offsets, cols, most)};
    index_t* const to = ell.col_indices.data();
    passes.fill(to, slots, index_t(-1));
    passes.each_entry(csr.rows, row_offsets, csr.nnz, [=] SPMVGPU_BODY(index_t row, index_t k) {
        const index_t number = k - row_offsets[row];
        if (number < most) to[shape.slot(row, number)] = cols[k];
    });
    store_slot_values(passes, ell, row_offsets, csr.values.data());
    return ell;
}

// Number of entries of a row in slots: they come before the padding.
constexpr index_t count_in_slots(const index_t* cols, const EllShape& shape, index_t row) {
    std::int64_t begin = 0, end = std::int64_t(shape.width) * shape.threads_per_row;
    while (begin < end) {
        const std::int64_t middle = begin + (end - begin) / 2;
        if (cols[shape.slot(row, static_cast<index_t>(middle))] >= 0) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return static_cast<index_t>(begin);
}

// Begins of rows of these lengths in CSR order: the contents of maps of new values.
template <class Passes>
Array<index_t> begin_of_rows(Passes& passes, index_t rows, const index_t* row_lengths) {
    return sum_row_lengths(passes, rows, [=] SPMVGPU_BODY(index_t row) { return row_lengths[row]; });
}

template <class Passes>
Array<index_t> count_row_lengths(Passes& passes, index_t rows, const index_t* row_offsets) {
    Array<index_t> lengths = passes.template make<index_t>(rows);
    index_t* const length = lengths.data();
    passes.each(rows, [=] SPMVGPU_BODY(std::int64_t row) { length[row] = row_offsets[row + 1] - row_offsets[row]; });
    return lengths;
}

// Begins of rows in CSR order, found from their slots: for a format that stores no lengths of rows.
template <class T, class Passes>
Array<index_t> begin_of_rows(Passes& passes, const EllSlots<T>& slots) {
    constexpr std::int64_t kNanosecondsPerRow = 20;
    const EllShape shape = slots.shape;
    const index_t* const cols = slots.col_indices.data();
    return sum_row_lengths(
        passes, shape.rows, [=] SPMVGPU_BODY(index_t row) { return count_in_slots(cols, shape, row); },
        kNanosecondsPerRow);
}

template <class T, class Kind, class Passes>
struct Builder<Ell<T, Kind>, Passes> {
    using Format = Ell<T, Kind>;
    using Tuning = typename Kind::Tuning;

    static EllPlan<Tuning> plan_for(Passes& passes, const CsrMatrix<T>& csr, const Tuning& tuning,
                                    const Target& target) {
        EllPlan<Tuning> plan{tuning, {}, {}};
        int threads = 1;
        if constexpr (requires { tuning.threads_per_row; }) {
            int& chosen = plan.tuning.threads_per_row;
            if (chosen == 0) chosen = choose_threads(csr.rows, csr.nnz);
            threads = chosen;
        }
        plan.shape = fit_shape(passes, csr.rows, csr.row_offsets.data(), threads);
        const std::size_t lengths = Kind::kHasLengths ? csr.rows * sizeof(index_t) : 0;
        plan.cost = EllSlots<T>::cost(Kind::kName, plan.shape, csr, tuning.max_padding, lengths, target);
        return plan;
    }

    static Format from_csr(Passes& passes, const CsrMatrix<T>& csr, const EllPlan<Tuning>& plan) {
        Format ell{csr.rows, csr.cols, csr.nnz, build_slots(passes, csr, plan.shape), {}, plan.tuning};
        if (Kind::kHasLengths) ell.row_lengths = count_row_lengths(passes, csr.rows, csr.row_offsets.data());
        return ell;
    }

    static Array<index_t> find_value_map(Passes& passes, const Format& ell) {
        return Kind::kHasLengths ? begin_of_rows(passes, ell.rows, ell.row_lengths.data())
                                 : begin_of_rows(passes, ell.slots);
    }

    static void store_values(Passes& passes, Format& ell, const index_t* row_offsets, const T* values) {
        store_slot_values(passes, ell.slots, row_offsets, values);
    }
};

}  // namespace spmvgpu
