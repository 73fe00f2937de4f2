// How far a solve is: what the scalars of all solvers have in common, and when they end.
#pragma once

#include <cstdint>

#include "solvers/engines/scalar.hpp"
#include "solvers/system/system.hpp"

namespace spmvgpu {

// What the scalars of every solver begin with. They live where the vectors do.
struct Progress {
    static constexpr bool kRecordsMr = false;  // whether the residuals that are recorded are those of M

    Status status = Status::kRunning;
    std::int32_t stopped = 0;  // sweeps are idle
    std::int64_t iterations = 0, maxiter = 0;
    std::int64_t products = 0, preconditionings = 0;  // those of iterations that counted
    double rtol = 0, atol = 0;
    double eps = 0;  // of the vectors' type
    Factor<double> shift;
    bool has_m = false;
    double lowest = 0, highest = 0;  // sizes that numbers of the first iteration may have; none are checked if zero
    double norm_b = 0, residual = 0, offending_value = 0;
    double asked = 0, goal = 0;  // what the true residual is to fall below, and the one that the method updates
    double* history = nullptr;   // residuals, the k-th at k % history_size
    std::int64_t history_size = 0;

    // Shows all pointers to memory of the solve, which may lie elsewhere for each of several devices.
    template <class Visit>
    void visit_pointers(Visit&& visit) {
        visit(history);
    }

    constexpr void stop(Status why, double value) {
        status = why;
        offending_value = value;
    }

    // Whether a number of the first iteration is so large or small that later ones, or squares of others, may leave the
    // range of their type. That ends a solve, which begins anew with a system that is scaled.
    constexpr bool leaves_range(double value) {
        const double size = value < 0 ? -value : value;
        const bool is_checked = highest > 0 && iterations == 0 && status == Status::kRunning;
        if (!is_checked || (size >= lowest && size <= highest)) return false;
        stop(Status::kOutOfRange, value);
        stopped = 1;
        return true;
    }

    constexpr void record(double norm) {
        residual = norm;
        history[iterations % history_size] = norm;
    }

    // Whether a residual of this norm ends the solve.
    constexpr void judge(double norm) {
        record(norm);
        if (!finite(norm)) {
            stop(Status::kNotFinite, norm);
        } else if (norm <= goal) {
            stop(Status::kConverged, norm);
        } else if (iterations >= maxiter) {
            stop(Status::kExhausted, norm);
        }
    }
};

// The norms of b and of the first residual, squared, and what they mean for the solve.
template <class S>
SPMVGPU_SCALAR void begin(S& s, double bb, double rr) {
    s.norm_b = root(bb);
    const double relative = s.rtol * s.norm_b;
    s.goal = s.asked = relative > s.atol ? relative : s.atol;
    if (s.leaves_range(bb)) return;
    if (bb == 0) {
        s.record(0);
        s.stop(Status::kConverged, 0);  // with x = 0, whatever the guess
    } else {
        s.judge(root(rr));
    }
}

}  // namespace spmvgpu
