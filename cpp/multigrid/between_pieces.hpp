// Operations for gpu/run.hpp on the hierarchy of a piece of a matrix, for entries between pieces that it does not have.
#pragma once

#include "multigrid/coarsen.hpp"

namespace spmvgpu::multigrid {

// The largest eigenvalue of D^-1 A, of which no entry is left out.
template <class T>
struct LargestOfScaled {
    using Result = double;
    const CsrMatrix<T>& A;
    const Array<double>& inverse_diagonal;

    template <class Passes>
    Result operator()(Passes& passes) const {
        InverseDiagonal diagonal{inverse_diagonal, passes.template scratch<double>(A.rows)};
        const double* const inverse = inverse_diagonal.data();
        double* const root = diagonal.root.data();
        passes.each(A.rows, [=] SPMVGPU_BODY(std::int64_t i) { root[i] = square_root(inverse[i]); });
        return largest_of_scaled(passes, A.pattern(), A.values.data(), diagonal, Settings{}.lanczos_steps);
    }
};

// The tentative prolongator of a grid.
template <class T>
struct TentativeMatrix {
    using Result = CsrMatrix<T>;
    const Grid<T>& grid;

    template <class Passes>
    Result operator()(Passes& passes) const {
        const auto count = static_cast<index_t>(grid.tentative.offsets.size() - 1);
        CsrMatrix<T> made = with_values<T>(
            passes, tentative_pattern(passes, grid.P.rows, grid.nodes, {count, grid.aggregates}, grid.tentative));
        fill_tentative(passes, grid.tentative, made);
        return made;
    }
};

// The factors by which smoothing subtracts rows of A T from rows of T.
template <class T>
struct SmoothingFactors {
    using Result = Array<double>;
    const CsrMatrix<T>& A;
    const Grid<T>& grid;

    template <class Passes>
    Result operator()(Passes& passes) const {
        const CsrPattern pattern = A.pattern();
        const T* const values = A.values.data();
        const Filtered<T> filter = filtered(passes, pattern, values, grid);
        const InverseDiagonal diagonal = invert_diagonal(passes, pattern, values, filter, grid.negligible);
        Array<double> factors = passes.template make<double>(A.rows);
        const double* const inverse = diagonal.inverse.data();
        double* const to = factors.data();
        const double damping = grid.damping;
        passes.each(A.rows, [=] SPMVGPU_BODY(std::int64_t row) { to[row] = damping * inverse[row]; });
        return factors;
    }
};

}  // namespace spmvgpu::multigrid
