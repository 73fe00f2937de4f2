// Incomplete factors of a matrix, with no entry where it has none (Saad, Iterative Methods for Sparse Linear Systems,
// section 10.3), and the preconditioner that solves with them.
#pragma once

#include <memory>
#include <vector>

#include "core/array.hpp"
#include "core/csr_matrix.hpp"
#include "solvers/linear_map.hpp"
#include "solvers/memory.hpp"

namespace spmvgpu {

// A triangular matrix whose rows stand in the order in which a solve can go through them: level by level, where the
// rows of a level refer to those of earlier levels only (Saad, section 11.6.3). The diagonal stands apart.
//
// On a GPU a warp takes rows of one level: each level is filled up with places that hold no row.
template <class T>
struct Triangle {
    static constexpr index_t kNoRow = -1;

    int lanes = 1;               // of a warp that share a row, on a GPU
    std::vector<index_t> begin;  // where each level begins, and where the last one ends
    Array<index_t> rows;         // number of the row at each place
    Array<index_t> row_offsets, col_indices;
    Array<T> values;
    Array<T> inverse_diagonal;  // at each place; empty: ones

    index_t places() const { return static_cast<index_t>(rows.size()); }
    Triangle to(Device device) const;
};

// A = L U nearly: L has ones on its diagonal, and L and U together the entries that A has. Of a symmetric positive
// definite matrix this is the incomplete Cholesky factorisation, with the pivots left in U.
template <class T>
class IncompleteFactors {
public:
    // From a canonical square matrix in host memory; computed in double precision.
    IncompleteFactors(const CsrMatrix<T>& A, Device device);

    index_t rows() const { return n_; }
    Device device() const { return device_; }

    // The first row whose pivot is missing, zero or not finite, so that there are no factors; -1: none.
    index_t failed_row() const { return failed_row_; }
    // The first row whose pivot has no positive real part, as it would have if A were positive definite; -1: none.
    index_t nonpositive_row() const { return nonpositive_row_; }

    const Triangle<T>& lower() const { return lower_; }
    const Triangle<T>& upper() const { return upper_; }
    std::size_t nbytes() const;

private:
    index_t n_;
    Device device_;
    index_t failed_row_ = -1, nonpositive_row_ = -1;
    Triangle<T> lower_, upper_;
};

// y = (L U)^-1 x.
template <class T>
class FactorsMap : public LinearMap<T> {
public:
    // Not for two solves at once: the memory between the two triangles is the map's.
    FactorsMap(std::shared_ptr<const IncompleteFactors<T>> factors, std::shared_ptr<SolverMemory> memory);

    void apply(const T* x, T* y, Stream stream) const override;

private:
    std::shared_ptr<const IncompleteFactors<T>> factors_;
    std::shared_ptr<SolverMemory> memory_;
    std::unique_ptr<SolverMemory::Lease> lease_;
    T* between_;       // what the lower triangle gives
    unsigned* state_;  // of solves on a GPU: see triangles.cu
};

namespace cuda {

// Numbers that a pair of solves with n rows needs, beside its vectors.
constexpr std::size_t solve_state_size(index_t n) { return 2 * (std::size_t(n) + 1); }

// x = (L U)^-1 b, queued on the stream; `between` and `state` are memory for it.
template <class T>
void solve_triangles(const IncompleteFactors<T>& factors, const T* b, T* between, T* x, unsigned* state, Stream stream);

}  // namespace cuda

}  // namespace spmvgpu
