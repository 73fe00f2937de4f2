// Incomplete factors of a matrix, with its pattern or with levels of fill (Saad, Iterative Methods for Sparse Linear
// Systems, section 10.3), and the preconditioner that solves with them.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/array.hpp"
#include "core/csr_matrix.hpp"
#include "solvers/system/linear_map.hpp"
#include "solvers/system/memory.hpp"

namespace spmvgpu {

// A triangular matrix whose rows are in the order of a solve: level by level, where the rows of a level refer to rows
// of earlier levels only (Saad, section 11.6.3). The diagonal is separate.
//
// On a GPU a warp takes rows of one level: each level is filled up with places without a row.
template <class T>
struct Triangle {
    static constexpr index_t kNoRow = -1;

    int lanes = 1;               // of a warp that share a row, on a GPU
    std::vector<index_t> begin;  // begins of the levels, and the end of the last one
    Array<index_t> rows;         // number of the row at each place
    Array<index_t> row_offsets, col_indices;
    Array<T> values;
    Array<T> inverse_diagonal;  // at each place; empty: ones

    index_t places() const { return static_cast<index_t>(rows.size()); }
    Triangle to(Device device) const;
};

template <class T>
struct Pivot {
    index_t row;
    Wide<T> value;
};

// A = L U approximately: L has ones on its diagonal, and L and U together have the pattern of A with its levels of
// fill, none for 0. For a symmetric positive definite matrix this is the incomplete Cholesky factorisation, with the
// pivots left in U. The factors of the conjugate transpose have the pivots in L, and ones on the diagonal of U.
template <class T>
class IncompleteFactors {
public:
    // From a canonical square matrix in host memory; computed in double precision.
    IncompleteFactors(const CsrMatrix<T>& A, Device device, int levels);
    // Reads the result of to_csr(), or its conjugate transpose, whose pivots are in the other factor.
    IncompleteFactors(const CsrMatrix<T>& factors, bool pivots_in_lower, Device device);

    index_t rows() const { return n_; }
    Device device() const { return device_; }

    // The first pivot that is missing (and counts as zero), zero or not finite, so that there are no factors.
    const std::optional<Pivot<T>>& failed() const { return failed_; }
    // The first pivot without a positive real part; there is none if A is positive definite.
    const std::optional<Pivot<T>>& nonpositive() const { return nonpositive_; }

    const Triangle<T>& lower() const { return lower_; }
    const Triangle<T>& upper() const { return upper_; }
    std::size_t nbytes() const;

    // Both factors as one canonical matrix in host memory, with the inverse pivots on its diagonal.
    CsrMatrix<T> to_csr() const;
    bool pivots_in_lower() const { return pivots_in_lower_; }

private:
    // The matrix may have zeros in places of fill.
    void factorise(const CsrMatrix<T>& A);

    index_t n_;
    Device device_;
    bool pivots_in_lower_ = false;
    std::optional<Pivot<T>> failed_, nonpositive_;
    Triangle<T> lower_, upper_;
};

// y = (L U)^-1 x.
template <class T>
class FactorsMap : public LinearMap<T> {
public:
    // Only one solve may use the map at a time, because it owns the memory between the two triangles.
    FactorsMap(std::shared_ptr<const IncompleteFactors<T>> factors, std::shared_ptr<SolverMemory> memory);

    void apply(const T* x, T* y, Stream stream) const override { apply_columns(x, y, factors_->rows(), 1, stream); }
    void apply_columns(const T* x, T* y, index_t n, index_t columns, Stream stream) const override;

private:
    std::shared_ptr<const IncompleteFactors<T>> factors_;
    std::shared_ptr<SolverMemory> memory_;
    mutable std::unique_ptr<SolverMemory::Lease> lease_;  // from the first application on
    mutable index_t columns_ = 0;                         // columns that fit
    mutable T* between_ = nullptr;                        // result of the lower triangle
    mutable unsigned* state_ = nullptr;                   // for solves on a GPU: see triangles.cu
};

namespace gpu {

// Numbers that a pair of solves with n rows needs, beside its vectors, for each column.
constexpr std::size_t solve_state_size(index_t n) { return 2 * (std::size_t(n) + 1); }

// x = (L U)^-1 b for columns that lie one after the other, queued on the stream, with the work memory `between` and
// `state`.
template <class T>
void solve_triangles(const IncompleteFactors<T>& factors, const T* b, T* between, T* x, index_t columns,
                     unsigned* state, Stream stream);

}  // namespace gpu

}  // namespace spmvgpu
