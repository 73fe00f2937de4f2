// The progress of a solve: the common scalars of all solvers, and when they end.
#pragma once

#include <cstdint>

#include "solvers/engines/scalar.hpp"
#include "solvers/system/system.hpp"

namespace spmvgpu {

// The head of the scalars of every solver. They are on the device of the vectors.
struct Progress {
    static constexpr bool kRecordsMr = false;  // true if the recorded residuals are norms of M r

    Status status = Status::kRunning;
    std::int32_t stopped = 0;  // not zero: sweeps are idle
    std::int64_t iterations = 0, maxiter = 0;
    std::int64_t products = 0, preconditionings = 0;  // of iterations that counted
    double rtol = 0, atol = 0;
    double eps = 0;  // of the type of vectors
    Factor<double> shift;
    bool has_m = false;
    bool has_postponed = false;      // sums of this piece are kept for postponed work
    double lowest = 0, highest = 0;  // bounds of numbers in the first iteration; zero: not checked
    double norm_b = 0, residual = 0, offending_value = 0;
    double tolerance = 0, goal = 0;  // bound for the true residual, and for the one that the method updates
    double* history = nullptr;       // residuals, the k-th at k % history_size
    std::int64_t history_size = 0;

    // Visits all pointers to memory of the solve, which may lie elsewhere for each of several devices.
    template <class Visit>
    void visit_pointers(Visit&& visit) {
        visit(history);
    }

    constexpr void stop(Status why, double value) {
        status = why;
        offending_value = value;
    }

    // Returns true if a number of the first iteration is so large or small that later ones, or squares of others, may
    // leave the range of their type. That ends a solve, which then restarts with a scaled system.
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

    // Ends the solve if a residual of this norm does so.
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

// Stores the norms of b and of the first residual, given as squares, and ends the solve if they do so.
template <class S>
SPMVGPU_SCALAR void begin(S& s, double bb, double rr) {
    s.norm_b = root(bb);
    const double relative = s.rtol * s.norm_b;
    s.goal = s.tolerance = relative > s.atol ? relative : s.atol;
    if (s.leaves_range(bb)) return;
    if (bb == 0) {
        s.record(0);
        s.stop(Status::kConverged, 0);  // with x = 0, whatever the guess is
    } else {
        s.judge(root(rr));
    }
}

}  // namespace spmvgpu
