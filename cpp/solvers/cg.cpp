// Conjugate gradients (Hestenes and Stiefel 1952), preconditioned by a diagonal M (Saad, Iterative Methods for Sparse
// Linear Systems, algorithm 9.1):
//
//     r = b - A x,  p = M r,  rho = r.Mr                            Start
//     until |r| <= max(rtol |b|, atol):
//         q = A p
//         alpha = rho / p.q                                         Curvature
//         r = r - alpha q,  beta = r.Mr / rho,  rho = r.Mr          Residual
//         x = x + alpha p,  p = M r + beta p                        Direction
//
// x is updated late, where p is read anyway, and z = M r is never stored: 10 passes over vectors an iteration, 12 with
// a preconditioner. All scalars stay on the device. Once the status is no longer kRunning, Curvature gives alpha = 0,
// and the other steps are idle then: iterations that are queued beyond the last change nothing.
#include "solvers/cg.hpp"

#include <limits>

#include "core/array.hpp"
#include "vector/queue.hpp"

namespace spmvgpu {

namespace {

constexpr bool finite(double value) {
    constexpr double kLargest = std::numeric_limits<double>::max();
    return value >= -kLargest && value <= kLargest;
}

struct State {
    double rtol, atol;
    std::int64_t maxiter;
    std::int64_t iterations = 0;
    double limit = 0;  // for |r|^2
    double alpha = 0, beta = 0, rho = 0;
    double offending_value = 0;
    std::int32_t zero_b = 0;  // as wide as the status: without padding, every byte that the host reads was written
    CgStatus status = CgStatus::kRunning;

    constexpr void stop(CgStatus why, double because) {
        status = why;
        offending_value = because;
    }

    // What the new residual's |r|^2 and r.Mr mean for the solve.
    constexpr void judge(double rr, double r_mr) {
        if (!finite(rr)) {
            stop(CgStatus::kNotFinite, rr);
        } else if (rr <= limit) {
            stop(CgStatus::kConverged, rr);
        } else if (!(r_mr > 0 && finite(r_mr))) {
            stop(CgStatus::kBadPreconditioner, r_mr);
        } else if (iterations >= maxiter) {
            stop(CgStatus::kExhausted, rr);
        }
    }
};

template <class T>
struct Vectors {
    T *x, *r, *p, *q;
    const T* inverse_diagonal;

    constexpr T m(index_t i) const { return inverse_diagonal ? inverse_diagonal[i] : T(1); }
};

// q holds A * guess, where there is a guess.
template <class T>
struct Start {
    static constexpr int kSums = 3;
    Vectors<T> v;
    const T *b, *guess;
    State initial;

    struct Loaded {
        T b, x, ax, m;
    };

    constexpr bool idle(const State&) const { return false; }

    constexpr Loaded load(index_t i) const { return {b[i], guess ? guess[i] : T(0), guess ? v.q[i] : T(0), v.m(i)}; }

    constexpr Sums<3> apply(const State&, index_t i, const Loaded& at) const {
        const T r = at.b - at.ax, z = at.m * r;
        v.x[i] = at.x;
        v.r[i] = r;
        v.p[i] = z;
        return {{double(at.b) * at.b, double(r) * r, double(r) * z}};
    }

    constexpr void then(State& state, const Sums<3>& sums) const {
        state = initial;
        const double relative = state.rtol * state.rtol * sums[0], absolute = state.atol * state.atol;
        state.limit = relative > absolute ? relative : absolute;
        state.rho = sums[2];
        state.zero_b = sums[0] == 0;
        state.zero_b ? state.stop(CgStatus::kConverged, 0) : state.judge(sums[1], sums[2]);
    }
};

template <class T>
struct Curvature {
    static constexpr int kSums = 1;
    Vectors<T> v;

    struct Loaded {
        T p, q;
    };

    constexpr bool idle(const State&) const { return false; }

    constexpr Loaded load(index_t i) const { return {v.p[i], v.q[i]}; }

    constexpr Sums<1> apply(const State&, index_t, const Loaded& at) const { return {{double(at.p) * at.q}}; }

    constexpr void then(State& state, const Sums<1>& sums) const {
        state.alpha = 0;
        if (state.status != CgStatus::kRunning) return;
        const double curvature = sums[0], alpha = state.rho / curvature;
        if (curvature <= 0) {
            state.stop(CgStatus::kIndefinite, curvature);
        } else if (!(alpha > 0 && finite(alpha) && finite(curvature))) {
            state.stop(CgStatus::kNotFinite, curvature);
        } else {
            state.alpha = alpha;
        }
    }
};

template <class T>
struct Residual {
    static constexpr int kSums = 2;
    Vectors<T> v;

    struct Loaded {
        T r, q, m;
    };

    constexpr bool idle(const State& state) const { return state.alpha == 0; }

    constexpr Loaded load(index_t i) const { return {v.r[i], v.q[i], v.m(i)}; }

    constexpr Sums<2> apply(const State& state, index_t i, const Loaded& at) const {
        const T r = at.r - T(state.alpha) * at.q;
        v.r[i] = r;
        return {{double(r) * r, double(r) * (at.m * r)}};
    }

    constexpr void then(State& state, const Sums<2>& sums) const {
        ++state.iterations;
        state.beta = sums[1] / state.rho;
        state.rho = sums[1];
        state.judge(sums[0], sums[1]);
    }
};

template <class T>
struct Direction {
    static constexpr int kSums = 0;
    Vectors<T> v;

    struct Loaded {
        T x, p, r, m;
    };

    constexpr bool idle(const State& state) const { return state.alpha == 0; }

    constexpr Loaded load(index_t i) const { return {v.x[i], v.p[i], v.r[i], v.m(i)}; }

    constexpr Sums<0> apply(const State& state, index_t i, const Loaded& at) const {
        v.x[i] = at.x + T(state.alpha) * at.p;
        v.p[i] = at.m * at.r + T(state.beta) * at.p;
        return {};
    }
};

// The solution for b = 0, whatever the guess.
template <class T>
struct Clear {
    static constexpr int kSums = 0;
    T* x;

    struct Loaded {};

    constexpr bool idle(const State& state) const { return !state.zero_b; }
    constexpr Loaded load(index_t) const { return {}; }
    constexpr Sums<0> apply(const State&, index_t i, const Loaded&) const {
        x[i] = T(0);
        return {};
    }
};

}  // namespace

template <class T>
CgResult solve_cg(const AnyMatrix<T>& matrix, const CgSystem<T>& system, const CgOptions& options,
                  const Stream* after) {
    const index_t n = matrix.rows();
    const auto size = static_cast<std::size_t>(n);
    Array<T> work(3 * size, matrix.device());
    Array<State> on_device(1, matrix.device());
    State* const state = on_device.data();
    T* const r = work.data();
    const Vectors<T> v{system.x, r, r + size, r + 2 * size, system.inverse_diagonal};
    const State initial{options.rtol, options.atol, options.maxiter};

    return with_queue(matrix.device(), after, [&](auto& queue) -> CgResult {
        if (system.guess) matrix.spmv({system.guess, v.q}, queue.stream());
        queue.sweep(n, state, Start<T>{v, system.b, system.guess, initial});
        queue.sweep(n, state, Clear<T>{v.x});

        State now = queue.read(state);
        const auto iterate = [&] {
            matrix.spmv({v.p, v.q}, queue.stream());
            queue.sweep(n, state, Curvature<T>{v});
            queue.sweep(n, state, Residual<T>{v});
            queue.sweep(n, state, Direction<T>{v});
        };
        const auto look = [&] {
            const std::int64_t before = now.iterations;
            now = queue.read(state);
            if (options.look && now.iterations > before) options.look();
            return now.status == CgStatus::kRunning;
        };
        if (now.status == CgStatus::kRunning) queue.repeat(options.look_each, iterate, look);
        return {now.status, now.iterations, now.offending_value};
    });
}

template CgResult solve_cg(const AnyMatrix<float>&, const CgSystem<float>&, const CgOptions&, const Stream*);
template CgResult solve_cg(const AnyMatrix<double>&, const CgSystem<double>&, const CgOptions&, const Stream*);

}  // namespace spmvgpu
