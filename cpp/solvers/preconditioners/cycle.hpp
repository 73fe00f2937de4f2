// Polynomials in a matrix, and multigrid cycles smoothed by them, as preconditioners on the device of their matrices.
#pragma once

#include <memory>
#include <vector>

#include "solvers/system/linear_map.hpp"
#include "solvers/system/memory.hpp"

namespace spmvgpu {

// A grid of a hierarchy. Its smoother is the Chebyshev iteration (Saad, algorithm 12.1) for D^-1 A, D being A's
// diagonal and its eigenvalues lying between low and high; that of degree 1 is Jacobi's with the weight 2 / (low +
// high).
template <class T>
struct Level {
    using Matrix = std::shared_ptr<const AnyMatrix<T>>;

    Matrix A;
    const T* inverse_diagonal;
    double low, high;
    int degree;
    Matrix R, P;     // to the next coarser grid and back; null on the last one
    Matrix inverse;  // of the last grid's matrix; null: its smoother is all there is

    // Whether a correction from here is a polynomial of degree 2 in a cycle, not one cycle: algebraic multilevel
    // iteration (Axelsson and Vassilevski, SIAM Journal on Numerical Analysis 27, 1990). With B the cycle, it is kFirst
    // B - kSecond B A B: an eigenvalue t of B A becomes kFirst t - kSecond t^2, which is between 0 and kLargest for all
    // t that are. If the eigenvalues of a correction are, so are those of the next finer cycle, whose smoother lets no
    // error grow in the norm of the matrix. So cycles of any number of levels are positive definite.
    bool twice = false;
    static constexpr double kLargest = 1.4;  // above 1, for unsmoothed prolongators make corrections too small
    static constexpr double kFirst = 3.6;    // below 4, or kLargest becomes a negative eigenvalue
    static constexpr double kSecond = kFirst * kFirst / (4 * kLargest);
};

// One cycle from zero, a V-cycle unless levels are visited twice: symmetric if the matrices are, for both smoothings
// are the same polynomial. A single level without an inverse is a Chebyshev preconditioner.
template <class T>
class CycleMap : public LinearMap<T> {
public:
    // The memory outlives the map. Not for two solves at once: the vectors of the grids are the map's.
    CycleMap(std::vector<Level<T>> levels, std::shared_ptr<SolverMemory> memory);

    void apply(const T* x, T* y, Stream stream) const override { apply_columns(x, y, 0, 1, stream); }
    void apply_columns(const T* x, T* y, index_t n, index_t columns, Stream stream) const override;
    bool can_be_recorded() const override;

    // Where vectors of a level are kept, all columns of each one after the other.
    struct Vectors {
        T *residual, *direction, *b, *x;  // b and x of all but the finest
    };
    const std::vector<Level<T>>& levels() const { return levels_; }
    const Vectors& vectors(std::size_t level) const { return vectors_[level]; }
    Device device() const { return memory_->device(); }  // of the diagonals

    // The polynomial, if that is all there is: a level without others and without an inverse. Null otherwise.
    const Level<T>* polynomial() const { return levels_.size() == 1 && !levels_[0].inverse ? &levels_[0] : nullptr; }

private:
    void take_vectors(index_t columns) const;

    std::vector<Level<T>> levels_;
    std::shared_ptr<SolverMemory> memory_;
    mutable std::unique_ptr<SolverMemory::Lease> lease_;  // from the first application on
    mutable index_t columns_ = 0;                         // that it has room for
    mutable std::vector<Vectors> vectors_;
};

namespace gpu {

// A cycle with matrices and vectors on a GPU, queued on the stream.
template <class T>
void run_cycle(const CycleMap<T>& cycle, int ordinal, const T* x, T* y, index_t columns, Stream stream);

}  // namespace gpu

}  // namespace spmvgpu
