// Operations for gpu/run.hpp on the hierarchy of a piece of a matrix, for entries between pieces that it does not have.
//
// The matrix is A = B + E, where B has the diagonal blocks of all pieces, and the prolongator is P = Q + D, where Q and
// R = Q* are of the blocks, and D is what smooths the tentative prolongator by E. So P maps the near null space exactly
// to its smoothed vectors, and the coarser matrix is R B Q + R E P + (B Q)* D + D* A P, because B is Hermitian. The
// first term is of the blocks. The others need the rows near other pieces alone.
#pragma once

#include <vector>

#include "core/passes/csr_algebra.hpp"
#include "core/passes/csr_operations.hpp"
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

// Marks the nodes of these rows.
struct MarkedNodes {
    using Result = Array<Mark>;
    const Array<index_t>& rows;
    const Nodes& nodes;

    template <class Passes>
    Result operator()(Passes& passes) const {
        Array<Mark> marks = passes.template make<Mark>(nodes.count);
        Mark* const to = marks.data();
        const index_t* const listed = rows.data();
        const Nodes::View view = nodes.view();
        passes.fill(to, nodes.count, Mark(0));
        passes.each(std::int64_t(rows.size()),
                    [=] SPMVGPU_BODY(std::int64_t i) { set_mark(to + view.node(listed[i])); });
        return marks;
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

// The entries E of a piece. The rows that have any are near other pieces.
template <class T>
struct EntriesBetween {
    index_t begin;                // the number of the first row of the piece in the whole matrix
    Array<index_t> near, needed;  // the rows near other pieces, and the columns of these with entries; ascending
    CsrMatrix<T> rows;            // the rows near other pieces, in the columns of the whole matrix
    CsrMatrix<T> own, halo;       // in the columns of the piece, and in the needed ones
};

// They are all entries of `csr`, which has the rows of a piece: those from `begin` to before `end` of the whole matrix.
template <class T>
struct FindBetween {
    using Result = EntriesBetween<T>;
    const CsrMatrix<T>& csr;
    index_t begin, end;

    template <class Passes>
    Result operator()(Passes& passes) const {
        Result made{begin, RowsWithEntries{csr.pattern()}(passes), {}, {}, {}, {}};
        made.rows = ListedRows<T>{csr, made.near}(passes);
        const CsrMatrix<T> outside = SelectedEntries<T>{made.rows, begin, end, true}(passes);
        made.needed = ColumnsWithEntries{outside.pattern()}(passes);
        made.own = SelectedEntries<T>{made.rows, begin, end}(passes);
        made.halo = ListedColumns<T>{outside, made.needed}(passes);
        return made;
    }
};

// E X, in rows near other pieces. X comes in two parts: the rows of the piece, and the needed ones. The columns of the
// first part begin at column `first` of the second.
template <class T>
struct TimesBetween {
    using Result = CsrMatrix<T>;
    const EntriesBetween<T>& between;
    const CsrMatrix<T>&of_piece, &needed;
    index_t first = 0;

    template <class Passes>
    Result operator()(Passes& passes) const {
        return Sum<T>{SparseProduct<T>{between.own, of_piece}(passes), SparseProduct<T>{between.halo, needed}(passes),
                      first}(passes);
    }
};

// The rows of A = B + E near other pieces, in the columns of an ascending list.
template <class T>
struct RowsNearOthers {
    using Result = CsrMatrix<T>;
    const EntriesBetween<T>& between;
    const CsrMatrix<T>& B;
    const Array<index_t>& listed;

    template <class Passes>
    Result operator()(Passes& passes) const {
        const CsrMatrix<T> of_block = ListedRows<T>{B, between.near}(passes);
        return ListedColumns<T>{Sum<T>{of_block, between.rows, between.begin}(passes), listed}(passes);
    }
};

// The piece's part of the coarser matrix beyond the blocks, in the rows and columns of all pieces; and D*, in the
// columns of the whole matrix. The rows of the piece on the coarser level begin at row `first`.
template <class T>
struct CoupleBetween {
    struct Result {
        CsrMatrix<T> A, adjoint;
    };
    const EntriesBetween<T>& between;
    const CsrMatrix<T>&B, &Q, &EQ;
    const CsrMatrix<T>*D, *needed_D;  // the rows of the piece, and the needed ones of others; null if no piece has any
    index_t first;

    template <class Passes>
    Result operator()(Passes& passes) const {
        const Array<index_t>& near = between.near;
        const CsrMatrix<T> near_Q = in_all_columns(passes, ListedRows<T>{Q, near}(passes));
        if (D == nullptr) return {SparseProduct<T>{adjoint_of(passes, near_Q), EQ}(passes), {}};
        const CsrMatrix<T> EP = Sum<T>{EQ, TimesBetween<T>{between, *D, *needed_D}(passes)}(passes);
        const CsrMatrix<T> near_D = ListedRows<T>{*D, near}(passes), near_B = ListedRows<T>{B, near}(passes);
        const CsrMatrix<T> BQ = in_all_columns(passes, SparseProduct<T>{near_B, Q}(passes));
        const CsrMatrix<T> BD = SparseProduct<T>{ListedColumns<T>{near_B, near}(passes), near_D}(passes);
        const CsrMatrix<T> AP = Sum<T>{Sum<T>{BQ, BD}(passes), EP}(passes);
        const std::vector<CsrMatrix<T>> left{near_Q, BQ, near_D}, right{EP, near_D, AP};
        const CsrMatrix<T> adjoint = adjoint_of(passes, StackedRows<T>{left}(passes));
        Result made{SparseProduct<T>{adjoint, StackedRows<T>{right}(passes)}(passes), adjoint_of(passes, near_D)};
        const index_t *const from = made.adjoint.col_indices.data(), *const rows = near.data();
        const index_t begin = between.begin;
        Array<index_t> cols = passes.template make<index_t>(made.adjoint.nnz);
        index_t* const to = cols.data();
        passes.each(made.adjoint.nnz, [=] SPMVGPU_BODY(std::int64_t k) { to[k] = begin + rows[from[k]]; });
        made.adjoint.col_indices = cols;
        made.adjoint.cols = between.rows.cols;
        return made;
    }

    template <class Passes>
    CsrMatrix<T> in_all_columns(Passes& passes, const CsrMatrix<T>& own) const {
        return moved_columns(passes, own, first, EQ.cols);
    }
    template <class Passes>
    static CsrMatrix<T> adjoint_of(Passes& passes, const CsrMatrix<T>& csr) {
        CsrMatrix<T> made = Transpose<T>{csr}(passes);
        if constexpr (kIsComplex<T>) made.values = Conjugates<T>{made.values}(passes);
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
