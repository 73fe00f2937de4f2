// Hierarchies of aggregates, smoothed (Vanek, Mandel and Brezina, Computing 56, 1996) or not, set up on the device of
// the matrix.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "core/csr_matrix.hpp"
#include "core/mutex.hpp"
#include "multigrid/coarsen.hpp"

namespace spmvgpu::multigrid {

// Why there is no hierarchy: the matrix is not positive definite, or not finite.
struct Refusal {
    int level;
    bool is_finite;  // false: this is the reason
};

// Returns true if no entry and its mirror image differ by more than a small part of the diagonal.
template <class T>
bool is_nearly_hermitian(const CsrMatrix<T>& A);

// A hierarchy. Equal matrices and settings give equal bits on every device.
template <class T>
class Hierarchy {
public:
    // The matrix is canonical and square, and its index arrays outlive the hierarchy. The rows of its nodes begin at
    // `nodes`, which the number of rows ends; empty: each row is one. B has `modes` columns and a row for each row of
    // the matrix, in host memory; null: a constant for each row of a node, of which all have `modes`. It has no grids
    // before it grows. If it is of a piece, which the rows `near` connect with others, nodes of these without a strong
    // connection in the piece are coarse unknowns of their own.
    Hierarchy(const CsrMatrix<T>& A, const Array<index_t>& nodes, const T* B, index_t modes, const Settings& settings,
              const Array<index_t>& near = {});

    // Makes the next grid, the finest one first, and returns true if a coarser one follows it, whose matrix() is known.
    // Other threads may use the grids before it meanwhile. `decided` is the result of coarsenings() of an equal
    // hierarchy with other values; null: decide by these.
    bool grow(const std::vector<Coarsening>* decided = nullptr);

    // Computes the numbers again for other values of the matrix, which lie in host memory or on its device; aggregates
    // and all patterns stay. The finest grid has the values, too, until they are dropped. Throws std::invalid_argument
    // if the values are too few or too many.
    void renew(const Array<T>& values);

    // Decisions that depended on the first values, for each grid except the coarsest one.
    std::vector<Coarsening> coarsenings() const;

    // The nodes and B, row by row, of a grid that is not the finest, for another hierarchy of its matrix. They are in
    // host memory.
    Array<index_t> nodes(std::size_t level) const;
    Array<T> near_null_space(std::size_t level) const;

    // The tentative prolongator of a grid.
    CsrMatrix<T> tentative(std::size_t level) const;
    // Smoothing of a prolongator by entries E that the matrix A of the grid does not have adds this. `ET` has the rows
    // `near` of the product of E with the tentative prolongator, of which others are empty.
    CsrMatrix<T> smoothing(std::size_t level, const CsrMatrix<T>& A, const Array<index_t>& near,
                           const CsrMatrix<T>& ET) const;

    std::size_t size() const;  // number of grids
    const Grid<T>& grid(std::size_t level) const;
    // The matrix of a level, whose grid may be the next one to be made.
    CsrMatrix<T> matrix(std::size_t level) const;
    // The number of grids with a smoothed prolongator, which are the finest ones.
    int smoothed_levels() const;
    const std::vector<Refusal>& refusals() const { return refusals_; }  // at most one
    // Frees the values of all matrices, once others have them: new values do not need the old ones.
    void drop_values();
    std::size_t nbytes() const;

private:
    // The size up to which entries on the diagonal of a level are zero; refuses the matrix if one is negative where it
    // matters: on the finest level, or if R is not the conjugate transpose of P, on all but the last.
    double checked(const CsrMatrix<T>& A, std::size_t level, bool is_last);

    Settings settings_;
    mutable Mutex growing_;  // protects the grids, and the matrix of the next one
    std::deque<Grid<T>> grids_;
    std::vector<Refusal> refusals_;
    // The next grid is made of these, until all grids are there.
    CsrMatrix<T> next_;
    Nodes nodes_;
    NearNullSpace<T> near_null_;
    index_t finest_entries_;
};

}  // namespace spmvgpu::multigrid
