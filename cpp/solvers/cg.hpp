// Conjugate gradients on the matrix's device, with a diagonal preconditioner.
#pragma once

#include <cstdint>
#include <functional>

#include "matrix/any_matrix.hpp"

namespace spmvgpu {

// Vectors of length n on the matrix's device.
template <class T>
struct CgSystem {
    const T* b;
    const T* guess;             // null: zero
    const T* inverse_diagonal;  // the preconditioner; null: none
    T* x;                       // result; need not be initialised, must not overlap the others
};

struct CgOptions {
    double rtol, atol;           // done when |b - A x| <= max(rtol |b|, atol)
    std::int64_t maxiter;        // at least 1
    bool look_each = false;      // whether look() is called after every iteration; if not, now and then
    std::function<void()> look;  // x is up to date meanwhile; may throw, which ends the solve
};

enum class CgStatus : int { kRunning, kConverged, kExhausted, kIndefinite, kBadPreconditioner, kNotFinite };

struct CgResult {
    CgStatus status;
    std::int64_t iterations;
    double offending_value;  // p.Ap if kIndefinite, r.Mr if kBadPreconditioner
};

// Complete when it returns. On a GPU the work starts after what the stream `after` holds, if that is given.
template <class T>
CgResult solve_cg(const AnyMatrix<T>& matrix, const CgSystem<T>& system, const CgOptions& options, const Stream* after);

}  // namespace spmvgpu
