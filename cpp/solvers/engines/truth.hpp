// The end of a solve by its true residual, for one right-hand side.
#pragma once

#include <utility>

#include "solvers/engines/progress.hpp"

namespace spmvgpu {

enum class Truth {
    kOver,      // the solve is over
    kNoBetter,  // the residual is neither small enough nor better
    kBetter,    // the residual is at most half of the last true one: the solve goes on
};

// Lets iterations go on, towards a residual that makes the true one small enough; false if maxiter is reached.
inline bool revive(Progress& now) {
    now.stopped = 0;
    now.status = now.iterations < now.maxiter ? Status::kRunning : Status::kExhausted;
    now.goal = 0.5 * now.tolerance;
    return now.status == Status::kRunning;
}

// The meaning of the true residual, which was `known` before.
inline Truth judge(Progress& now, double residual, double& known) {
    const double before = std::exchange(known, residual);
    const Status said = now.status;
    const auto ends = [&](Status status) {
        now.status = status;
        return Truth::kOver;
    };
    if (residual <= now.tolerance && said != Status::kNotFinite) return ends(Status::kConverged);
    const bool may_go_on = said == Status::kConverged || said == Status::kStagnated || said == Status::kSingular ||
                           said == Status::kRho || said == Status::kOmega;
    if (!may_go_on) return ends(said);
    if (!finite(residual)) {
        now.offending_value = residual;
        return ends(Status::kNotFinite);
    }
    if (residual < 0.5 * before) {
        now.residual = residual;
        return revive(now) ? Truth::kBetter : Truth::kOver;
    }
    ends(said == Status::kConverged ? Status::kStagnated : said);
    return Truth::kNoBetter;
}

}  // namespace spmvgpu
