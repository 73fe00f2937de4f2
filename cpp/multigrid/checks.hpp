// Properties of a matrix from its entries, as passes on any device; see core/passes/passes.hpp.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/array.hpp"
#include "core/csr_matrix.hpp"
#include "core/passes/passes.hpp"
#include "core/wide.hpp"
#include "multigrid/products.hpp"
#include "multigrid/spectrum.hpp"
#include "multigrid/strength.hpp"

namespace spmvgpu::multigrid {

// Checks of the entries of a matrix.
struct EntryChecks {
    std::int64_t not_finite = 0;    // number of entries
    std::int64_t not_positive = 0;  // rows that are not empty and whose diagonal entry is not positive
    double largest = 0;             // largest diagonal entry
    double below = 0;               // size of the largest negative one

    constexpr EntryChecks& operator+=(const EntryChecks& other) {
        not_finite += other.not_finite;
        not_positive += other.not_positive;
        if (other.largest > largest) largest = other.largest;
        if (other.below > below) below = other.below;
        return *this;
    }
};

template <class T>
struct Inspect {
    using Result = EntryChecks;
    const CsrMatrix<T>& A;

    template <class Passes>
    Result operator()(Passes& passes) const {
        const CsrPattern csr = A.pattern();
        const T* const values = A.values.data();
        return passes.template reduce<EntryChecks>(
            csr.rows,
            [=] SPMVGPU_BODY(std::int64_t row) {
                EntryChecks found;
                double own = 0;
                bool is_empty = true;
                for (index_t k = csr.row_offsets[row]; k < csr.row_offsets[row + 1]; ++k) {
                    found.not_finite += !is_finite(values[k]);
                    is_empty = is_empty && values[k] == T(0);
                    if (csr.col_indices[k] == row) own = real_part(Wide<T>(values[k]));
                }
                const auto inverse = static_cast<Real<T>>(1 / own);
                found.not_positive = !is_empty && !(own > 0 && inverse > 0 && is_finite(inverse));
                found.largest = own > 0 ? own : 0;
                found.below = own < 0 ? -own : 0;
                return found;
            },
            kNanosecondsPerTerm * (1 + csr.nnz / std::max(1, csr.rows)));
    }
};

// The position of the mirror image of an entry, -1 if it is not stored. In a mesh that looks the same from every node
// it is as far from the end of its row as the entry is from the begin of its own.
constexpr index_t mirror_of(const CsrPattern& A, index_t row, index_t k) {
    const index_t there = A.col_indices[k], begin = A.row_offsets[there], end = A.row_offsets[there + 1];
    const index_t likely = end - 1 - (k - A.row_offsets[row]);
    if (likely >= begin && A.col_indices[likely] == row) return likely;
    const index_t found = find_column(A.col_indices, begin, end, row);
    return found < end ? found : -1;
}

// Returns true if no entry and its mirror image differ by more than a small part of the diagonal.
template <class T>
struct IsNearlyHermitian {
    using Result = bool;
    const CsrMatrix<T>& A;

    template <class Passes>
    Result operator()(Passes& passes) const {
        const CsrPattern csr = A.pattern();
        const T* const values = A.values.data();
        Array<double> roots = passes.template scratch<double>(csr.rows);
        double* const root = roots.data();
        passes.each(
            csr.rows,
            [=] SPMVGPU_BODY(std::int64_t i) {
                const auto row = static_cast<index_t>(i);
                const index_t end = csr.row_offsets[row + 1];
                const index_t k = find_column(csr.col_indices, csr.row_offsets[row], end, row);
                root[row] = k < end ? square_root(magnitude(Wide<T>(values[k]))) : 0;
            },
            kNanosecondsPerTerm * (1 + csr.nnz / std::max(1, csr.rows)));
        return !any_entry(passes, csr.rows, csr.row_offsets, csr.nnz, [=] SPMVGPU_BODY(index_t row, index_t k) {
            constexpr double kSmall = 0.01;
            const index_t mirror = mirror_of(csr, row, k);
            const Wide<T> other = mirror < 0 ? Wide<T>(0) : conjugate(Wide<T>(values[mirror]));
            return magnitude(Wide<T>(values[k]) - other) > kSmall * root[row] * root[csr.col_indices[k]];
        });
    }
};

// Half of the sum of a matrix and its adjoint, in the pattern of the matrix.
template <class T, class Passes>
Array<T> hermitian_part(Passes& passes, const CsrPattern& A, const T* values) {
    Array<T> made = passes.template scratch<T>(A.nnz);
    T* const to = made.data();
    passes.each_entry(A.rows, A.row_offsets, A.nnz, [=] SPMVGPU_BODY(index_t row, index_t k) {
        const index_t mirror = mirror_of(A, row, k);
        const Wide<T> other = mirror < 0 ? Wide<T>(0) : conjugate(Wide<T>(values[mirror]));
        to[k] = T((Wide<T>(values[k]) + other) / 2.0);
    });
    return made;
}

}  // namespace spmvgpu::multigrid
