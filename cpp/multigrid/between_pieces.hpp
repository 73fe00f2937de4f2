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

// The factors by which smoothing subtracts rows of E T from rows of a prolongator, where E is what the matrix of a
// piece lacks. They are zero in rows where E is far larger than that, as on coarse levels of small pieces: the
// prolongators of further levels would grow without bound.
template <class T>
struct SmoothingFactors {
    using Result = Array<double>;
    const CsrMatrix<T>&A, &ET;
    const Grid<T>& grid;

    template <class Passes>
    Result operator()(Passes& passes) const {
        constexpr double kMost = 32;  // beside entries of T, which are at most 1
        const CsrPattern pattern = A.pattern(), beyond = ET.pattern();
        const T* const values_beyond = ET.values.data();
        const T* const values = A.values.data();
        const Filtered<T> filter = filtered(passes, pattern, values, grid, grid.kept);
        const InverseDiagonal diagonal = invert_diagonal(passes, pattern, values, filter, grid.negligible);
        Array<double> factors = passes.template make<double>(A.rows);
        const double* const inverse = diagonal.inverse.data();
        double* const to = factors.data();
        const double damping = grid.damping;
        passes.each(A.rows, [=] SPMVGPU_BODY(std::int64_t row) {
            const double factor = damping * inverse[row];
            double sum = 0;
            for (index_t k = beyond.row_offsets[row]; k < beyond.row_offsets[row + 1]; ++k) {
                sum += magnitude(Wide<T>(values_beyond[k]));
            }
            to[row] = factor * sum <= kMost ? factor : 0;
        });
        return factors;
    }
};

}  // namespace spmvgpu::multigrid
