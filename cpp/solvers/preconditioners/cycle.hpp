// Polynomials in a matrix, and multigrid cycles smoothed by them, as preconditioners on the device of their matrices.
#pragma once

#include <memory>
#include <vector>

#include "solvers/system/linear_map.hpp"
#include "solvers/system/memory.hpp"

namespace spmvgpu {

// A grid of a hierarchy. Its smoother is the Chebyshev iteration (Saad, algorithm 12.1) for D^-1 A, where D is A's
// diagonal and the eigenvalues lie between low and high; degree 1 is Jacobi's method with the weight 2 / (low + high).
template <class T>
struct Level {
    using Matrix = std::shared_ptr<const AnyMatrix<T>>;

    Matrix A;
    const T* inverse_diagonal;
    double low, high;
    int degree;
    Matrix R, P;     // to the next coarser grid and back; null on the last one
    Matrix inverse;  // inverse of the last grid's matrix; null: only the smoother

    // True if a correction from here is a polynomial of degree 2 in a cycle, and not one cycle: algebraic multilevel
    // iteration (Axelsson and Vassilevski, SIAM Journal on Numerical Analysis 27, 1990). With B the cycle, it is kFirst
    // B - kSecond B A B: an eigenvalue t of B A becomes kFirst t - kSecond t^2, which is between 0 and kLargest if t
    // is. If the eigenvalues of a correction are, so are the eigenvalues of the next finer cycle, whose smoother lets
    // no error grow in the norm of the matrix. Cycles of any number of levels are therefore positive definite.
    bool twice = false;
    static constexpr double kLargest = 1.4;  // above 1, because unsmoothed prolongators make corrections too small
    static constexpr double kFirst = 3.6;    // below 4, because kLargest would become a negative eigenvalue
    static constexpr double kSecond = kFirst * kFirst / (4 * kLargest);
};

// The vectors of a level, all columns of each one after the other.
template <class T>
struct GridVectors {
    T *residual, *direction;
    T *b, *x;   // except on the finest level
    T* second;  // the second correction, if the level is visited twice

    template <class Take>
    static GridVectors of(bool is_finest, bool is_twice, const Take& take) {
        GridVectors made{take(), take(), nullptr, nullptr, nullptr};
        if (!is_finest) made.b = take(), made.x = take();
        if (is_twice) made.second = take();
        return made;
    }
};

// One cycle from zero, a V-cycle unless levels are visited twice: symmetric if the matrices are, because both
// smoothings are the same polynomial. A single level without an inverse is a Chebyshev preconditioner.
template <class T>
class CycleMap : public LinearMap<T> {
public:
    // The memory outlives the map. Only one solve may use the map at a time, because it owns the vectors of the grids.
    CycleMap(std::vector<Level<T>> levels, std::shared_ptr<SolverMemory> memory);

    void apply(const T* x, T* y, Stream stream) const override { apply_columns(x, y, 0, 1, stream); }
    void apply_columns(const T* x, T* y, index_t, index_t columns, Stream stream) const override {
        run_from(0, x, y, columns, stream);
    }
    bool can_be_recorded() const override { return can_be_recorded_from(0); }

    // The part of a cycle from a level on. Levels before it need no memory if this is called first.
    void run_from(std::size_t first, const T* b, T* x, index_t columns, Stream stream) const;
    // Takes the memory that run_from() needs, before its work is recorded.
    void take_vectors(std::size_t first, index_t columns) const;
    bool can_be_recorded_from(std::size_t first) const;

    const std::vector<Level<T>>& levels() const { return levels_; }
    const GridVectors<T>& vectors(std::size_t level) const { return vectors_[level]; }
    Device device() const { return memory_->device(); }  // of the diagonals

private:
    std::vector<Level<T>> levels_;
    std::shared_ptr<SolverMemory> memory_;
    mutable std::unique_ptr<SolverMemory::Lease> lease_;  // from the first application on
    mutable index_t columns_ = 0;                         // columns that fit
    mutable std::size_t first_ = 0;                       // level that has vectors
    mutable std::vector<GridVectors<T>> vectors_;
};

namespace gpu {

// A cycle from a level on, with matrices and vectors on a GPU, queued on the stream.
template <class T>
void run_cycle(const CycleMap<T>& cycle, std::size_t first, int ordinal, const T* b, T* x, index_t columns,
               Stream stream);

}  // namespace gpu

}  // namespace spmvgpu
