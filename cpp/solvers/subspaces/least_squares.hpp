// The vector work of least-squares methods on a device: products with A and its adjoint, and the steps in between.
#pragma once

#include <cstdint>
#include <memory>

#include "solvers/system/linear_map.hpp"
#include "solvers/system/memory.hpp"
#include "solvers/system/system.hpp"

namespace spmvgpu {

// A has `rows` rows and `cols` columns. Over ranks these are the lengths of the pieces of a rank, and all ranks call
// the functions together. All functions are complete on return. x is the caller's vector; while a method runs it holds
// the solution times a power of two. Norms are norms of the scaled system (2^-A A) and 2^-b (b - A x), which differs
// from the given one only if numbers are far from 1.
template <class T>
class LeastSquares {
public:
    struct Start {
        double beta = 0, alpha = 0;  // |r| and |A^H r| / |r| for the first residual r
        int exponent_b = 0, exponent_A = 0;
    };
    struct Step {
        double alpha, beta, x_squared, w_squared;
    };
    struct Update {
        double of_p, of_x, of_v, of_w;
    };
    struct Descent {
        std::int64_t iterations;
        double gamma;  // |A^H r - damp^2 x|^2
        bool stopped;
    };

    virtual ~LeastSquares() = default;

    // The first step of the bidiagonalisation of Golub and Kahan: x = guess, or zero if that is null, r = b - A x, u_1
    // = r / beta, v_1 = A^H u_1 / alpha, and w = v_1.
    virtual Start start(const T* b, const T* guess, T* x) = 0;

    // The updates of a method's vectors, and then the next step of the bidiagonalisation. lsqr has x = x + of_x w and w
    // = of_v v + of_w w. lsmr has one more vector p, which begins as zero: p = w + of_p p, x = x + of_x p, and the same
    // w. First of_variance |w_i|^2 is added to the elements of `variances`, if that is not null.
    virtual Step next(T* x, const Update& update, bool has_p, T* variances, double of_variance) = 0;

    // Conjugate gradients on the normal equations, continued from start(): it keeps the residual r of A x = b, and not
    // only that of the normal equations. `damp` belongs to the scaled system. They stop once gamma <= goal^2.
    virtual Descent start_descent(T* x, double damp, double goal) = 0;
    virtual Descent descend(T* x, int iterations) = 0;

    // Scales x back for the caller.
    virtual void finish(T* x) = 0;
};

template <class T>
std::unique_ptr<LeastSquares<T>> make_least_squares(std::shared_ptr<const LinearMap<T>> A,
                                                    std::shared_ptr<const LinearMap<T>> adjoint, index_t rows,
                                                    index_t cols, std::shared_ptr<SolverMemory> memory, RankSums ranks);

namespace gpu {

template <class T>
std::unique_ptr<LeastSquares<T>> make_least_squares(std::shared_ptr<const LinearMap<T>> A,
                                                    std::shared_ptr<const LinearMap<T>> adjoint, index_t rows,
                                                    index_t cols, std::shared_ptr<SolverMemory> memory, RankSums ranks);

}  // namespace gpu

}  // namespace spmvgpu
