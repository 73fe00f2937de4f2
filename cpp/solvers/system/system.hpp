// A system of linear equations to solve: what the caller gives, how far to go, and what is reported in the end.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "gpu/nccl.hpp"
#include "solvers/system/linear_map.hpp"

namespace spmvgpu {

// Adds what the other ranks have to so many numbers, in place: with the same bits on all of them. All call it alike.
using AddOverRanks = std::function<void(double* sums, int count)>;

// Vectors of length n on one device, where they are also given if A is over several that keep pieces of them. Of a
// system over the ranks of a communicator every rank has a piece of length n, on a device of its own. The columns of
// several right-hand sides, of the guess and of x lie one after the other.
template <class T>
struct System {
    index_t n;
    Device device;
    const LinearMap<T>* A;
    const LinearMap<T>* M;  // the preconditioner; null: none
    const T* b;
    const T* guess;                       // null: zero
    T* x;                                 // result; need not be initialised, must not overlap the others
    const AddOverRanks* ranks = nullptr;  // of such a system, through host memory; null: none
    const gpu::NcclCommunicator* gpus_of_ranks = nullptr;  // the same between GPUs
    index_t columns = 1;

    const T* diagonal() const { return M == nullptr ? nullptr : M->diagonal(); }  // that M is; null if it is none
    bool has_operator() const { return M != nullptr && M->diagonal() == nullptr; }

    // The system of one of the columns.
    System column(std::ptrdiff_t j) const {
        System one = *this;
        one.columns = 1;
        one.b += j * n, one.x += j * n;
        if (guess != nullptr) one.guess += j * n;
        return one;
    }
};

struct Limits {
    double rtol = 1e-5, atol = 0;  // done when |b - A x| <= max(rtol |b|, atol)
    std::int64_t maxiter = 0;      // of gmres, restarts unless legacy is set
    int restart = 20;              // gmres
    bool legacy = false;           // gmres: maxiter counts its inner iterations
    bool guess_is_mb = false;      // the guess is M b
    bool check = false;            // minres: look whether A and M are symmetric
    double shift = 0;              // minres solves (A - shift I) x = b
    bool look_each = false;        // look() after every iteration, and not now and then
    bool look_restarts = false;    // gmres: after every restart
    int look_every = 0;            // after so many iterations; 0: ever more rarely
    bool record = false;           // whether the report has all residuals
    bool recorded = true;          // whether iterations may be recorded as a CUDA graph
    bool cooperative = true;       // whether kernels may have blocks that wait for each other
    bool scaled = false;           // b, A and M are multiplied by powers of two (engines/scales.hpp)
};

// What the caller sees of a solve under way, of each column.
struct Look {
    std::int64_t iterations;
    double residual;  // as the method updates it
    double norm_b;
};

using LookAt = std::function<void(const std::vector<Look>&)>;

enum class Status : std::int32_t {
    kRunning,
    kConverged,
    kExhausted,          // all iterations that were allowed are done
    kNotFinite,          // NaN or inf came up
    kIndefinite,         // p.Ap <= 0
    kBadPreconditioner,  // r.Mr <= 0
    kRho,                // bicgstab: the residual is orthogonal to the first one
    kOmega,              // bicgstab: no step along A s makes the residual smaller
    kSingular,           // gmres: the basis ended, and the residual is not small
    kUnsymmetric,        // minres: A is not symmetric, as far as its checks see
    kUnsymmetricM,       // minres: the same of M
    kLeastSquares,       // minres: |A r| is small, and |r| is not: the system has no solution, and x comes nearest
    kStagnated,          // the true residual is not small enough, and going on from it does not help
    kOutOfRange,         // numbers of the first iteration are so large or small that the system has to be scaled
};

// The names of the statuses in Python, in their order.
inline constexpr const char* kStatusNames[] = {"running",
                                               "converged",
                                               "exhausted",
                                               "not_finite",
                                               "indefinite",
                                               "bad_preconditioner",
                                               "rho",
                                               "omega",
                                               "singular",
                                               "unsymmetric",
                                               "unsymmetric_preconditioner",
                                               "least_squares",
                                               "stagnated",
                                               "out_of_range"};

struct Report {
    Status status = Status::kRunning;
    std::int64_t iterations = 0;
    double offending_value = 0;
    double residual = 0;       // as the method updates it
    double true_residual = 0;  // |b - A x| in the end
    double goal = 0;           // what the residual was to fall below
    double norm_b = 0;
    double seconds = 0;          // all of it
    double product_seconds = 0;  // in products with A; on a GPU from those of one iteration
    double precondition_seconds = 0;
    std::int64_t products = 0, preconditionings = 0;  // that the method made use of
    int pieces = 1;                                   // of the vectors, each on a device of its own
    bool resident = false;                            // whether the iterations were done within one kernel
    bool chained = false;                             // whether the sweeps between two products were
    std::vector<double> residuals;  // where they are recorded: that of the guess, and one for every iteration
};

using Reports = std::vector<Report>;  // one for each column

}  // namespace spmvgpu
