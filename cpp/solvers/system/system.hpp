// A system of linear equations: the operands, the limits of the iterations, and the report.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "gpu/nccl.hpp"
#include "solvers/system/linear_map.hpp"

namespace spmvgpu {

// Adds the other ranks' numbers to these, in place, with the same bits on all ranks. All ranks call it alike.
using AddOverRanks = std::function<void(double* sums, int count)>;

// How sums are added up over the ranks of a communicator: by one of these, or not at all where vectors are whole.
struct RankSums {
    AddOverRanks through_host;
    std::shared_ptr<const gpu::NcclCommunicator> between_gpus;

    const AddOverRanks* function() const { return through_host ? &through_host : nullptr; }
    explicit operator bool() const { return through_host || between_gpus; }
};

// Vectors have length n and are on one device, also if A is over several that keep pieces of them. In a system over the
// ranks of a communicator every rank has a piece of length n, on a device of its own. The columns of several right-hand
// sides, of the guess and of x lie one after the other. In a batch of systems A and M are block diagonal, each block
// has n rows, and column j is of block j % batch.
template <class T>
struct System {
    index_t n;
    Device device;
    const LinearMap<T>* A;
    const LinearMap<T>* M;  // the preconditioner; null: none
    const T* b;
    const T* guess;                       // null: zero
    T* x;                                 // result; need not be initialised, must not overlap the others
    const AddOverRanks* ranks = nullptr;  // sums over ranks through host memory; null: no ranks
    const gpu::NcclCommunicator* gpus_of_ranks = nullptr;  // sums over ranks between GPUs
    index_t columns = 1, batch = 1;
    bool is_divided = false;  // each of several devices has a piece of the vectors

    const T* diagonal() const { return M == nullptr ? nullptr : M->diagonal(); }  // M as a diagonal; null if it is none
    bool has_operator() const { return M != nullptr && M->diagonal() == nullptr; }
    bool is_in_pieces() const { return is_divided || ranks != nullptr || gpus_of_ranks != nullptr; }

    // The columns from j on that are multiplied at once: one, or one of each system of a batch.
    System product(std::ptrdiff_t j) const {
        System one = *this;
        one.columns = batch;
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
    bool flexible = false;         // cg and gmres: M may be another map in each iteration
    bool guess_is_mb = false;      // the guess is M b
    bool check = false;            // minres: look whether A and M are symmetric
    double shift = 0;              // minres solves (A - shift I) x = b
    bool look_each = false;        // calls look() after every iteration
    bool look_restarts = false;    // gmres: calls look() after every restart
    int look_every = 0;            // iterations between looks; 0: growing intervals
    bool record = false;           // the report has all residuals
    bool scaled = false;           // b, A and M are multiplied by powers of two (engines/scales.hpp)
    int scaled_as = 0;             // the column of a batch that these suit
    std::vector<char> is_solved;   // true for columns of a batch that a scaled solve leaves out
};

// The state of one column of a running solve, for the caller.
struct Look {
    std::int64_t iterations;
    double residual;  // as the method updates it
    double norm_b;
};

// Returns false to end the solve.
using LookAt = std::function<bool(const std::vector<Look>&)>;

enum class Status : std::int32_t {
    kRunning,
    kConverged,
    kExhausted,          // maxiter iterations are done, or the caller has ended the solve
    kNotFinite,          // NaN or inf occurred
    kIndefinite,         // p.Ap <= 0
    kBadPreconditioner,  // r.Mr <= 0
    kRho,                // bicgstab: the residual is orthogonal to the first one
    kOmega,              // bicgstab: no step along A s makes the residual smaller
    kSingular,           // gmres: the basis ended, and the residual is not small
    kUnsymmetric,        // minres: A is not symmetric, as far as its checks see
    kUnsymmetricM,       // minres: M is not symmetric, as far as its checks see
    // In minres |A r| is small, and |r| is not: the system has no solution, and x is a least-squares solution.
    kLeastSquares,
    kStagnated,   // the true residual is not small enough, and further iterations do not help
    kOutOfRange,  // numbers of the first iteration are so large or small that the system must be scaled
};

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
    double true_residual = 0;  // at the end
    double goal = 0;           // bound for the residual
    double norm_b = 0;
    double seconds = 0;          // of the whole solve
    double product_seconds = 0;  // in products with A; on a GPU estimated from one iteration
    double precondition_seconds = 0;
    std::int64_t products = 0, preconditionings = 0;  // that the method used
    int pieces = 1;                                   // of the vectors, each on a device of its own
    bool resident = false;                            // the iterations were done within one kernel
    bool chained = false;                             // the sweeps between two products were one kernel
    std::vector<double> residuals;                    // if they are recorded: for the guess, and for every iteration
};

using Reports = std::vector<Report>;

}  // namespace spmvgpu
