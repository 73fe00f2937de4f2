// How ellpack, ellpack_r and ellr_t are built; see builder.hpp.
#pragma once

#include "formats/builder.hpp"
#include "formats/ellpack.hpp"
#include "formats/ellpack_r.hpp"
#include "formats/ellr_t.hpp"
#include "formats/node_rows.hpp"

namespace spmvgpu {

// The threads per row of ellr_t.
int choose_threads(index_t rows, index_t nnz);

// The smallest shape that holds the longest row.
template <class Passes>
EllShape fit_shape(Passes& passes, index_t rows, const index_t* row_offsets, int threads_per_row) {
    const auto longest = largest<index_t>(
        passes, rows, SPMVGPU_BODY(std::int64_t row) { return row_offsets[row + 1] - row_offsets[row]; });
    const index_t width = longest / threads_per_row + (longest % threads_per_row != 0);
    return {rows, threads_per_row, width, aligned_pitch(std::int64_t(rows) * threads_per_row)};
}

// The first `most` entries of every row in slots; all of them by default.
template <class T, class Passes>
EllSlots<T> build_slots(Passes& passes, const CsrMatrix<T>& csr, const EllShape& shape, index_t most = kAllEntries) {
    const std::int64_t slots = shape.slots();
    const index_t* const row_offsets = csr.row_offsets.data();
    const index_t* const cols = csr.col_indices.data();
    const T* const values = csr.values.data();
    EllSlots<T> ell{shape, passes.template make<index_t>(slots), passes.template make<T>(slots),
                    find_node_rows(passes, csr.rows, row_offsets, cols, most)};
    index_t* const to_cols = ell.col_indices.data();
    T* const to_values = ell.values.data();
    passes.fill(to_cols, slots, index_t(-1));
    passes.fill(to_values, slots, T(0));
    passes.each_entry(
        csr.rows, row_offsets, csr.nnz, SPMVGPU_BODY(index_t row, index_t k) {
            const index_t number = k - row_offsets[row];
            if (number >= most) return;
            const std::int64_t slot = shape.slot(row, number);
            to_cols[slot] = cols[k];
            to_values[slot] = values[k];
        });
    return ell;
}

// Entries of each row.
template <class Passes>
Array<index_t> count_row_lengths(Passes& passes, index_t rows, const index_t* row_offsets) {
    Array<index_t> lengths = passes.template make<index_t>(rows);
    index_t* const length = lengths.data();
    passes.each(
        rows, SPMVGPU_BODY(std::int64_t row) { length[row] = row_offsets[row + 1] - row_offsets[row]; });
    return lengths;
}

template <class T, class Passes>
struct Builder<Ellpack<T>, Passes> {
    using Plan = typename Ellpack<T>::Plan;

    static Plan plan_for(Passes& passes, const CsrMatrix<T>& csr, const PaddedTuning& tuning, const Target& target) {
        const EllShape shape = fit_shape(passes, csr.rows, csr.row_offsets.data(), 1);
        return {tuning, EllSlots<T>::cost(Ellpack<T>::kName, shape, csr, tuning.max_padding, 0, target), shape};
    }

    static Ellpack<T> from_csr(Passes& passes, const CsrMatrix<T>& csr, const Plan& plan) {
        return {csr.rows, csr.cols, csr.nnz, build_slots(passes, csr, plan.shape), plan.tuning};
    }
};

template <class T, class Passes>
struct Builder<EllpackR<T>, Passes> {
    using Plan = typename EllpackR<T>::Plan;

    static Plan plan_for(Passes& passes, const CsrMatrix<T>& csr, const PaddedTuning& tuning, const Target& target) {
        const EllShape shape = fit_shape(passes, csr.rows, csr.row_offsets.data(), 1);
        const std::size_t lengths = csr.rows * sizeof(index_t);
        return {tuning, EllSlots<T>::cost(EllpackR<T>::kName, shape, csr, tuning.max_padding, lengths, target), shape};
    }

    static EllpackR<T> from_csr(Passes& passes, const CsrMatrix<T>& csr, const Plan& plan) {
        return {csr.rows,
                csr.cols,
                csr.nnz,
                Builder<Ellpack<T>, Passes>::from_csr(passes, csr, plan),
                count_row_lengths(passes, csr.rows, csr.row_offsets.data()),
                plan.tuning};
    }
};

template <class T, class Passes>
struct Builder<EllrT<T>, Passes> {
    using Plan = typename EllrT<T>::Plan;

    static Plan plan_for(Passes& passes, const CsrMatrix<T>& csr, const EllrTTuning& tuning, const Target& target) {
        Plan plan{tuning, {}, {}};
        if (tuning.threads_per_row == 0) plan.tuning.threads_per_row = choose_threads(csr.rows, csr.nnz);
        plan.shape = fit_shape(passes, csr.rows, csr.row_offsets.data(), plan.tuning.threads_per_row);
        const std::size_t lengths = csr.rows * sizeof(index_t);
        plan.cost = EllSlots<T>::cost(EllrT<T>::kName, plan.shape, csr, tuning.padded.max_padding, lengths, target);
        return plan;
    }

    static EllrT<T> from_csr(Passes& passes, const CsrMatrix<T>& csr, const Plan& plan) {
        return {csr.rows,
                csr.cols,
                csr.nnz,
                build_slots(passes, csr, plan.shape),
                count_row_lengths(passes, csr.rows, csr.row_offsets.data()),
                plan.tuning};
    }
};

}  // namespace spmvgpu
