// The step from a matrix to the next coarser grid, as operations for gpu/run.hpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/csr_matrix.hpp"
#include "core/passes/csr_passes.hpp"
#include "multigrid/aggregation.hpp"
#include "multigrid/checks.hpp"
#include "multigrid/interpolation.hpp"
#include "multigrid/products.hpp"
#include "multigrid/spectrum.hpp"
#include "multigrid/strength.hpp"

namespace spmvgpu::multigrid {

struct Settings : Threshold {
    int rounds = 1;        // rounds in which aggregates get roots
    double damping = 1.5;  // for smoothed prolongators
    // A prolongator is smoothed if its product with the matrix has at most this many terms for each entry of the matrix
    // and each near-null vector. If one is not smoothed, coarser ones are not either.
    double most_terms = 0;
    double most_terms_below = 0;  // the bound for grids below the finest
    int most_steps = 2;           // number of smoothing steps
    bool is_hermitian = true;     // R is the conjugate transpose of P
    index_t max_coarse = 300;     // a grid with at most this many unknowns is the coarsest
    int max_levels = 20;
    int finer = 0;  // levels before the first one, which belong to other hierarchies
    int lanczos_steps = 10;
};

// A grid, with the data that new values of its matrix need.
template <class T>
struct Grid {
    CsrMatrix<T> A;                 // without values on the finest grid
    Array<T> inverse_diagonal;      // zero for a zero diagonal entry, in a row of a singular matrix
    double largest_eigenvalue = 0;  // estimate for D^-1 A
    int steps = 0;                  // number of smoothing steps; 0: P is the tentative prolongator
    double damping = 0;             // a step multiplies by 1 - damping D^-1 A, with the filtered matrix
    double negligible = 0;          // diagonal entries up to this count as zero
    CsrMatrix<T> P, R;              // from the next coarser grid, and to it; empty on the coarsest one
    Nodes nodes;
    Array<index_t> aggregates;  // aggregate of each node
    Array<Strength> kept;       // zero for the weak entries of A; empty if there are none
    Array<Wide<T>> near_null;   // the vector that A nearly maps to zero; empty if it is constant, or not one
    Tentative<T> tentative;
    PatternArrays of_once;  // the pattern of P after one of two steps
    PatternArrays of_AP;
    Array<index_t> entries_of_R;  // their positions in P, or in the adjoint's prolongator
    // The patterns of the adjoint and of its prolongator, whose conjugate transpose is R, and the positions in A of the
    // adjoint's entries; empty if A is Hermitian, or P is not smoothed.
    PatternArrays of_adjoint, of_its_P;
    Array<index_t> entries_of_adjoint;

    bool is_smoothed() const { return steps > 0; }
};

// The matrix of a grid, or its adjoint, without the entries that are not kept.
template <class T, class Passes>
Filtered<T> filtered(Passes& passes, const CsrPattern& A, const T* values, const Grid<T>& grid,
                     const Array<Strength>& kept) {
    if (kept.size() == 0) return {};
    return filter_entries(passes, A, values, kept.data(), grid.nodes.view(), grid.near_null.data());
}

// D^-1 of a matrix, real and in double precision, and its square root.
struct InverseDiagonal {
    Array<double> inverse, root;
};

// The diagonal of the filtered matrix: A's diagonal plus the weak entries of the row, which a filter moves there. If
// that is not positive, the diagonal of A itself. An entry up to `negligible` has no inverse. If the matrix is not
// Hermitian, entries are at least half of the sum of the sizes in their rows, so that no eigenvalue is larger than 2 in
// size, and large enough for the imaginary part of the diagonal.
template <class T, class Passes>
InverseDiagonal invert_diagonal(Passes& passes, const CsrPattern& A, const T* values, const Filtered<T>& filter,
                                double negligible, bool is_hermitian = true) {
    InverseDiagonal made{passes.template scratch<double>(A.rows), passes.template scratch<double>(A.rows)};
    double *const inverse = made.inverse.data(), *const root = made.root.data();
    const index_t* const filtered = filter.columns(A);
    const T* const filtered_values = filter.values_of(values);
    passes.each(
        A.rows,
        [=] SPMVGPU_BODY(std::int64_t i) {
            const auto row = static_cast<index_t>(i);
            double sum = 0, own = 0, beside = 0;
            Wide<T> whole(0);
            for (index_t k = A.row_offsets[row]; k < A.row_offsets[row + 1]; ++k) {
                if (A.col_indices[k] == row) own += real_part(Wide<T>(values[k]));
                if (filtered[k] == row) sum += real_part(Wide<T>(filtered_values[k]));
                if (!is_hermitian && filtered[k] == row) whole += Wide<T>(filtered_values[k]);
                if (!is_hermitian && filtered[k] != row) beside += magnitude(Wide<T>(filtered_values[k]));
            }
            constexpr double kLeast = 0.1;  // the share of the diagonal that must be left
            double pivot = sum > kLeast * own ? sum : own;
            if (!is_hermitian && pivot > negligible) {
                const double size = magnitude(whole), of_row = (size + beside) / 2, turned = size * (size / pivot);
                if (turned > pivot) pivot = turned;
                if (of_row > pivot) pivot = of_row;
            }
            inverse[row] = pivot > negligible ? 1 / pivot : 0;
            root[row] = square_root(inverse[row]);
        },
        kNanosecondsPerTerm * (1 + A.nnz / std::max(1, A.rows)));
    return made;
}

// The largest eigenvalue of D^-1 A.
template <class T, class Passes>
double largest_of_scaled(Passes& passes, const CsrPattern& A, const T* values, const InverseDiagonal& diagonal,
                         int steps) {
    const double* const root = diagonal.root.data();
    const std::int64_t nanoseconds = kNanosecondsPerTerm * (1 + A.nnz / std::max(1, A.rows));
    const double bound =
        passes
            .template reduce_rows<Largest<double>, double>(
                A.rows, A.row_offsets, A.nnz,
                [=] SPMVGPU_BODY(index_t k) { return magnitude(Wide<T>(values[k])) * root[A.col_indices[k]]; },
                [=] SPMVGPU_BODY(index_t row, double sum) { return Largest<double>{sum * root[row]}; }, nanoseconds)
            .value;
    return largest_eigenvalue(passes, A, values, root, bound, steps, nanoseconds);
}

// Smooths the tentative prolongator of a grid by a step of Jacobi's method with a matrix that need not be Hermitian.
template <class T, class Passes>
void smooth_by_rows(Passes& passes, const CsrPattern& A, const T* values, const Array<Strength>& kept,
                    double negligible, const Grid<T>& grid, CsrMatrix<T>& P) {
    constexpr double kDamping = 2.0 / 3;  // no eigenvalue is larger than 2 in size, and most real parts are positive
    const Filtered<T> filter = filtered(passes, A, values, grid, kept);
    InverseDiagonal diagonal = invert_diagonal(passes, A, values, filter, negligible, false);
    double* const scale = diagonal.inverse.data();
    passes.each(A.rows, [=] SPMVGPU_BODY(std::int64_t row) { scale[row] *= kDamping; });
    const CsrPattern strong{A.rows, A.cols, A.nnz, A.row_offsets, filter.columns(A)};
    smooth_prolongator(passes, strong, filter.values_of(values), scale, grid.tentative, P);
}

// Entries of an array at these positions.
template <class U, class Passes>
Array<U> entries_at(Passes& passes, const Array<U>& entries, const Array<index_t>& positions) {
    Array<U> made = passes.template scratch<U>(entries.size());
    U* const to = made.data();
    const U* const from = entries.data();
    const index_t* const places = positions.data();
    passes.each(std::int64_t(made.size()), [=] SPMVGPU_BODY(std::int64_t i) { to[i] = from[places[i]]; });
    return made;
}

// The prolongator of the adjoint of a grid's matrix (Sala and Tuminaro, SIAM J. Sci. Comput. 31, 2008).
template <class T, class Passes>
CsrMatrix<T> prolongator_of_adjoint(Passes& passes, const T* values, double negligible, const Grid<T>& grid) {
    const CsrPattern adjoint = grid.of_adjoint.view();
    Array<T> made = passes.template scratch<T>(adjoint.nnz);
    T* const to = made.data();
    const index_t* const places = grid.entries_of_adjoint.data();
    passes.each(adjoint.nnz, [=] SPMVGPU_BODY(std::int64_t i) { to[i] = T(conjugate(Wide<T>(values[places[i]]))); });
    CsrMatrix<T> P = with_values<T>(passes, grid.of_its_P);
    const Array<Strength> kept = entries_at(passes, grid.kept, grid.entries_of_adjoint);
    smooth_by_rows<T>(passes, adjoint, to, kept, negligible, grid, P);
    return P;
}

template <class T>
struct ConstantsOfNodes {
    using Result = Array<Wide<T>>;
    index_t rows, block;

    template <class Passes>
    Result operator()(Passes& passes) const {
        const index_t modes = block;
        Array<Wide<T>> entries = passes.template make<Wide<T>>(std::size_t(rows) * modes);
        Wide<T>* const to = entries.data();
        passes.each(std::int64_t(rows) * modes,
                    [=] SPMVGPU_BODY(std::int64_t i) { to[i] = Wide<T>(i / modes % modes == i % modes ? 1.0 : 0.0); });
        return entries;
    }
};

// The values of P, R and the coarser A, for a matrix whose patterns are known.
template <class T, class Passes>
CsrMatrix<T> fill_values(Passes& passes, const CsrMatrix<T>& A, double negligible, const Settings& settings,
                         Grid<T>& grid, CsrMatrix<T> coarse) {
    CsrPattern pattern = A.pattern();
    const T* const values = A.values.data();
    const index_t rows = A.rows;
    const bool is_hermitian = settings.is_hermitian;
    InverseDiagonal diagonal = invert_diagonal(passes, pattern, values, Filtered<T>{}, negligible, is_hermitian);
    grid.inverse_diagonal = passes.template make<T>(rows);
    {
        T* const to = grid.inverse_diagonal.data();
        const double* const inverse = diagonal.inverse.data();
        passes.each(rows, [=] SPMVGPU_BODY(std::int64_t row) { to[row] = T(static_cast<Real<T>>(inverse[row])); });
    }
    constexpr double kLargest = 2;  // see invert_diagonal()
    grid.largest_eigenvalue =
        is_hermitian ? largest_of_scaled(passes, pattern, values, diagonal, settings.lanczos_steps) : kLargest;
    if (grid.tentative.cols == 0) return {};
    if (!grid.is_smoothed()) {
        fill_tentative(passes, grid.tentative, grid.P);
    } else if (!is_hermitian) {
        smooth_by_rows<T>(passes, pattern, values, grid.kept, negligible, grid, grid.P);
    } else {
        const Filtered<T> filter = filtered(passes, pattern, values, grid, grid.kept);
        if (grid.kept.size() > 0) {
            diagonal = invert_diagonal(passes, pattern, values, filter, negligible);
            pattern.col_indices = filter.columns(pattern);
        }
        // The filtered matrix has about the same largest eigenvalue.
        const double largest = grid.largest_eigenvalue, damping = largest > 0 ? settings.damping / largest : 0;
        grid.damping = damping, grid.negligible = negligible;
        double* const scale = diagonal.inverse.data();
        passes.each(rows, [=] SPMVGPU_BODY(std::int64_t row) { scale[row] *= damping; });
        if (grid.steps == 1) {
            smooth_prolongator(passes, pattern, filter.values_of(values), scale, grid.tentative, grid.P);
        } else {
            CsrMatrix<T> once = with_values<T>(passes, grid.of_once);
            smooth_prolongator(passes, pattern, filter.values_of(values), scale, grid.tentative, once);
            smooth_again(passes, filter.of(A), scale, once, grid.P);
        }
    }

    const index_t* const entries = grid.entries_of_R.data();
    const bool is_of_adjoint = grid.is_smoothed() && !is_hermitian;
    const CsrMatrix<T> left = is_of_adjoint ? prolongator_of_adjoint(passes, values, negligible, grid) : grid.P;
    const T* const of_left = left.values.data();
    T* const of_R = grid.R.values.data();
    passes.each(grid.R.nnz, [=] SPMVGPU_BODY(std::int64_t i) { of_R[i] = T(conjugate(Wide<T>(of_left[entries[i]]))); });

    CsrMatrix<T> AP = with_values<T>(passes, grid.of_AP);
    multiply_values(passes, A, grid.P, AP);
    multiply_values(passes, grid.R, AP, coarse);
    return coarse;
}

// Decisions that depend on the first values of a grid's matrix. New values do not change them.
struct Coarsening {
    Aggregates aggregates;
    int steps = 0;  // number of smoothing steps
    PatternArrays of_P;
    Array<Strength> kept;  // see Grid
};

// Makes a grid from its matrix, and the matrix of the next coarser one, which has no rows if there is none.
template <class T>
struct Coarsen {
    struct Result {
        Grid<T> grid;
        CsrMatrix<T> coarse;
    };
    const CsrMatrix<T>& A;
    const Nodes& nodes;
    const NearNullSpace<T>& near_null;
    double negligible;  // diagonal entries up to this count as zero
    const Settings& settings;
    bool is_last;                         // do not make a coarser grid
    const Coarsening* decided = nullptr;  // on the device, from the same grid with other values; null: decide now

    template <class Passes>
    Result operator()(Passes& passes) const {
        Result result;
        Grid<T>& grid = result.grid;
        grid.A = A;
        grid.nodes = nodes;
        if (near_null.count == 1 && !near_null.is_constant) grid.near_null = near_null.entries;
        CsrMatrix<T> coarse;
        if (!is_last) coarse = find_patterns(passes, grid);
        result.coarse = fill_values(passes, A, negligible, settings, grid, coarse);
        return result;
    }

private:
    // Makes everything except the values, which the coarser matrix gets later.
    template <class Passes>
    CsrMatrix<T> find_patterns(Passes& passes, Grid<T>& grid) const {
        const CsrPattern pattern = A.pattern();
        Coarsening made = decided != nullptr ? *decided : Coarsening{};
        NodeGraph node_graph;
        const T* values = A.values.data();
        Array<T> part;
        if (decided == nullptr) {
            if (!settings.is_hermitian) part = hermitian_part(passes, pattern, values), values = part.data();
            node_graph = connect_nodes<T>(passes, pattern, values, nodes, grid.near_null.data(), settings);
            made.aggregates = aggregate(passes, node_graph.graph(pattern, nodes), settings.rounds);
        }
        constexpr double kLeastGain = 0.9;  // largest share of the rows that may be left
        if (made.aggregates.count == 0) return {};
        Tentative<T> tentative = tentative_prolongator(passes, A.rows, nodes, made.aggregates, near_null);
        if (tentative.cols == 0 || tentative.cols > kLeastGain * A.rows) return {};
        if (decided == nullptr) decide(passes, values, node_graph, tentative, made, grid);
        grid.aggregates = made.aggregates.of_node;
        grid.steps = made.steps;
        grid.kept = made.kept;
        grid.tentative = std::move(tentative);
        grid.P = with_values<T>(passes, made.of_P);
        const bool is_of_adjoint = grid.is_smoothed() && !settings.is_hermitian;
        if (is_of_adjoint) find_adjoint(passes, made, grid);
        TransposedPattern transposed =
            transposed_pattern(passes, is_of_adjoint ? grid.of_its_P.view() : made.of_P.view());
        grid.R = with_values<T>(passes, transposed.pattern);
        grid.entries_of_R = transposed.entries;
        if (grid.steps == 2) {
            const Graph strong{A.rows, pattern.row_offsets, pattern.col_indices, made.kept.data()};
            grid.of_once = prolongator_pattern(passes, A.rows, nodes, strong, made.aggregates, grid.tentative);
        }
        const Nodes& coarse_nodes = grid.tentative.nodes;
        if (nodes.are_rows() && coarse_nodes.are_rows()) {
            if (grid.of_AP.rows == 0) grid.of_AP = product_pattern(passes, pattern, made.of_P.view());
            return with_values<T>(passes, product_pattern(passes, transposed.pattern.view(), grid.of_AP.view()));
        }
        // Products of nodes have a fraction of the entries.
        if (decided != nullptr && !nodes.are_rows()) node_graph.own = pattern_of_nodes(passes, pattern, nodes, nodes);
        const CsrPattern own = nodes.are_rows() ? pattern : node_graph.own.view();
        const PatternArrays of_P = pattern_of_nodes(passes, made.of_P.view(), nodes, coarse_nodes);
        const PatternArrays of_R = is_of_adjoint
                                       ? pattern_of_nodes(passes, transposed.pattern.view(), coarse_nodes, nodes)
                                       : transposed_pattern(passes, of_P.view()).pattern;
        const PatternArrays of_AP = product_pattern(passes, own, of_P.view());
        const index_t cols = grid.tentative.cols;
        PatternArrays coarse = product_pattern(passes, of_R.view(), of_AP.view());
        grid.of_AP = pattern_of_rows(passes, of_AP, A.rows, nodes, cols, coarse_nodes);
        return with_values<T>(passes,
                              pattern_of_rows(passes, std::move(coarse), cols, coarse_nodes, cols, coarse_nodes));
    }

    // Finds the patterns of the adjoint and of its prolongator.
    template <class Passes>
    void find_adjoint(Passes& passes, const Coarsening& made, Grid<T>& grid) const {
        TransposedPattern transposed = transposed_pattern(passes, A.pattern());
        grid.of_adjoint = std::move(transposed.pattern);
        grid.entries_of_adjoint = std::move(transposed.entries);
        const PatternArrays of_T = tentative_pattern(passes, A.rows, nodes, made.aggregates, grid.tentative);
        CsrPattern strong = grid.of_adjoint.view();
        Filtered<T> filter;
        if (made.kept.size() > 0 && nodes.are_rows()) {
            const Array<Strength> kept = entries_at(passes, made.kept, grid.entries_of_adjoint);
            filter = filter_entries<T>(passes, strong, nullptr, kept.data(), nodes.view(), nullptr);
            strong.col_indices = filter.columns(strong);
        }
        grid.of_its_P = product_pattern(passes, strong, of_T.view());
    }

    // Makes the decisions that follow from the aggregates. The values belong to the Hermitian part of the matrix.
    template <class Passes>
    void decide(Passes& passes, const T* values, const NodeGraph& node_graph, const Tentative<T>& tentative,
                Coarsening& made, Grid<T>& grid) const {
        const CsrPattern pattern = A.pattern();
        double terms = 0;
        if (settings.most_terms > 0) {
            made.of_P = prolongator_pattern(passes, A.rows, nodes, node_graph.graph(pattern, nodes), made.aggregates,
                                            tentative);
            const double most = settings.most_terms * tentative.near_null.count * A.nnz;
            terms = count_terms(passes, pattern, made.of_P.view());
            made.steps = terms <= most ? 1 : 0;
        }
        if (made.steps > 0) {
            made.kept = kept_entries(passes, pattern, values, nodes, node_graph);
            constexpr double kFewTerms = 3.2;  // in two dimensions, and on lines
            const bool is_thin = nodes.are_rows() && terms <= kFewTerms * A.nnz;
            const bool may_be_two = settings.most_steps > 1 && settings.is_hermitian;
            if (is_thin && made.kept.size() > 0 && may_be_two) try_two_steps(passes, made, grid);
        } else {
            made.of_P = tentative_pattern(passes, A.rows, nodes, made.aggregates, tentative);
        }
    }

    // Smooths a prolongator twice if the products stay small. Without weak entries one step is enough.
    template <class Passes>
    void try_two_steps(Passes& passes, Coarsening& made, Grid<T>& grid) const {
        constexpr double kMostTerms = 6.5, kMostEntries = 1.1;
        const CsrPattern pattern = A.pattern();
        const Filtered<T> filter =
            filter_entries<T>(passes, pattern, A.values.data(), made.kept.data(), nodes.view(), nullptr);
        const CsrPattern strong{pattern.rows, pattern.cols, pattern.nnz, pattern.row_offsets, filter.columns(pattern)};
        PatternArrays of_P = product_pattern(passes, strong, made.of_P.view());
        if (count_terms(passes, pattern, of_P.view()) > kMostTerms * A.nnz) return;
        PatternArrays of_AP = product_pattern(passes, pattern, of_P.view());
        if (of_AP.nnz > kMostEntries * A.nnz) return;
        made.steps = 2;
        made.of_P = std::move(of_P);
        grid.of_AP = std::move(of_AP);
    }
};

// New values of a grid's matrix: computes the values of the grid's other matrices, and of the next coarser one.
template <class T>
struct Renew {
    using Result = CsrMatrix<T>;
    const CsrMatrix<T>& A;
    double negligible;
    const Settings& settings;
    Grid<T>& grid;
    const CsrMatrix<T>& coarse;  // its pattern is kept

    template <class Passes>
    Result operator()(Passes& passes) const {
        CsrMatrix<T> to = coarse;
        to.values = passes.template make<T>(coarse.nnz);
        grid.P.values = passes.template make<T>(grid.P.nnz);
        grid.R.values = passes.template make<T>(grid.R.nnz);
        return fill_values(passes, A, negligible, settings, grid, to);
    }
};

}  // namespace spmvgpu::multigrid
