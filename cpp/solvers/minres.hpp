// The minimal residual method for symmetric systems that need not be definite (Paige and Saunders 1975), with the tests
// and the names of SciPy's: Lanczos vectors v = y / beta of A - shift I, whose tridiagonal matrix is made triangular by
// rotations as it grows.
//
//     y = (A - shift) v - (beta / oldb) r1,  alfa = v.y
//     y = y - (alfa / beta) r2               r1, r2 = r2, y
//     oldb = beta,  beta = sqrt(y.My)        rotations: oldeps, delta, gamma, phi
//     w = (v - oldeps w1 - delta w2) / gamma  w1, w2 = w2, w
//     x = x + phi w,  v = M y / beta
//
// The vectors that the others turn into take turns in three places each.
#pragma once

#include "solvers/context.hpp"

namespace spmvgpu {

struct MinresScalars : Progress {
    static constexpr bool kOwnTest = true;
    double eps = 0, shift = 0;
    double beta1 = 0, beta = 0, oldb = 0, alfa = 0, dbar = 0, epsln = 0, phibar = 0, cs = -1, sn = 0, tnorm2 = 0;
    double gmax = 0, gmin = 0, oldeps = 0, delta = 0, gamma = 1, phi = 0, rootl = 0;
    std::int32_t ends = 0, least_squares = 0;

    // The first Lanczos vector, from r.Mr.
    SPMVGPU_SCALAR void begin_lanczos(double r_mr) {
        record(root(r_mr > 0 ? r_mr : 0));
        if (!finite(r_mr)) return stop(Status::kNotFinite, r_mr);
        if (r_mr < 0) return stop(Status::kBadPreconditioner, r_mr);
        if (r_mr == 0) return stop(Status::kConverged, 0);
        beta1 = beta = phibar = root(r_mr);
        if (maxiter == 0) stop(Status::kExhausted, beta);
    }

    SPMVGPU_SCALAR void compare(double one, double other, Status otherwise) {
        if (status != Status::kRunning) return;
        const double difference = size_of(one - other), allowed = (one + eps) * ::cbrt(eps);
        if (difference > allowed) stop(otherwise, difference);
    }

    // alfa = v.y, and the rest of the iteration's coefficients once y.My is known.
    SPMVGPU_SCALAR void rotate(double y_my) {
        if (!finite(y_my)) return stop(Status::kNotFinite, y_my);
        if (y_my < 0) {
            stop(Status::kBadPreconditioner, y_my);
            stopped = 1;
            return;
        }
        oldb = beta;
        beta = root(y_my);
        tnorm2 += alfa * alfa + oldb * oldb + beta * beta;
        if (iterations == 0 && beta / beta1 <= 10 * eps) ends = 1;  // b and x are eigenvectors
        oldeps = epsln;
        delta = cs * dbar + sn * alfa;
        const double gbar = sn * dbar - cs * alfa;
        epsln = sn * beta;
        dbar = -cs * beta;
        rootl = root(gbar * gbar + dbar * dbar);
        gamma = root(gbar * gbar + beta * beta);
        if (gamma < eps) gamma = eps;
        cs = gbar / gamma;
        sn = beta / gamma;
        phi = cs * phibar;
        phibar = sn * phibar;
        gmax = gamma > gmax ? gamma : gmax;
        gmin = gamma < gmin ? gamma : gmin;
    }

    // SciPy's tests, from |x|.
    SPMVGPU_SCALAR void test(double norm_x) {
        ++iterations;
        record(phibar);
        const double norm_a = root(tnorm2);
        const bool is_zero = norm_x == 0 || norm_a == 0;
        const double test1 = is_zero ? kInfinity : phibar / (norm_a * norm_x);
        const double test2 = norm_a == 0 ? kInfinity : rootl / norm_a;
        if (!finite(norm_x)) return stop(Status::kNotFinite, norm_x);
        const bool to_rtol = test1 <= rtol || test2 <= rtol;
        const bool to_precision =
            1 + test1 <= 1 || 1 + test2 <= 1 || norm_a * norm_x * eps >= beta1 || gmax / gmin >= 0.1 / eps || beta == 0;
        least_squares = test2 <= rtol && !(test1 <= rtol);
        if (ends != 0 || to_rtol || to_precision) {
            stop(Status::kConverged, phibar);
        } else if (iterations >= maxiter) {
            stop(Status::kExhausted, phibar);
        }
    }

    static constexpr double kInfinity = std::numeric_limits<double>::infinity();
};

// SciPy's check: w = A y and A w, and the same of M.
template <class T, class Queue>
void check_symmetry(Context<T, Queue>& solve, MinresScalars* s, const T* r, const T* y, T* w, T* aw) {
    using S = MinresScalars;
    auto& queue = solve.queue;
    solve.multiply(y, w);
    solve.multiply(w, aw);
    queue.sweep(
        s, solve.n, read(w, y, aw), SPMVGPU_LAMBDA(const S&, T w, T y, T aw) { return sum<T>(square(w), dot(y, aw)); },
        SPMVGPU_LAMBDA(S & s, const Sums<T, 2>& sums) {
            s.compare(real_of(sums[0]), real_of(sums[1]), Status::kUnsymmetric);
        });
    if (!solve.has_preconditioner()) return;
    const T* const my = solve.precondition(s, y, w);
    queue.sweep(
        s, solve.n, read(y, r, my), SPMVGPU_LAMBDA(const S&, T y, T r, T my) { return sum<T>(square(y), dot(r, my)); },
        SPMVGPU_LAMBDA(S & s, const Sums<T, 2>& sums) {
            s.compare(real_of(sums[0]), real_of(sums[1]), Status::kUnsymmetricM);
        });
}

template <class T>
struct MinresIteration {
    static constexpr int kProducts = 1;

    T *x, *v;
    T* my_memory;  // for M y, if there is an M
    T *ys[3], *ws[3];

    SPMVGPU_ITERATION void operator()(Run& run, MinresScalars* s, std::int64_t k) const {
        using S = MinresScalars;
        const bool is_plain = !run.has_preconditioner();
        const std::int64_t first = k % 3, second = (k + 1) % 3, third = (k + 2) % 3;
        T *const r1 = ys[third], *const r2 = ys[first], *const y = ys[second];
        T *const w1 = ws[first], *const w2 = ws[second], *const w = ws[third];

        // y = (A - shift) v - (beta / oldb) r1,  alfa = v.y
        run.multiply(v, y);
        run.sweep(
            s, read(y, v, r1), write(y),
            SPMVGPU_LAMBDA(const S& s, T y, T v, T r1) {
                const double ratio = s.oldb > 0 ? s.beta / s.oldb : 0;
                y = y - Real<T>(s.shift) * v - Real<T>(ratio) * r1;
                return put(y).sum(dot(v, y));
            },
            SPMVGPU_LAMBDA(S & s, const Sums<T, 1>& sums) {
                if (s.status != Status::kRunning) s.stopped = 1;
                s.alfa = real_of(sums[0]);
            });

        // y = y - (alfa / beta) r2,  beta = sqrt(y.My)
        run.sweep(
            s, read(y, r2), write(y),
            SPMVGPU_LAMBDA(const S& s, T y, T r2) {
                y = y - Real<T>(s.alfa / s.beta) * r2;
                return put(y).sum(square(y));
            },
            SPMVGPU_LAMBDA(S & s, const Sums<T, 1>& sums) {
                if (is_plain) s.rotate(real_of(sums[0]));
            });
        const T* const my = run.precondition(s, y, my_memory);
        if (!is_plain) {
            run.sweep(
                s, read(y, my), SPMVGPU_LAMBDA(const S&, T y, T my) { return sum<T>(dot(y, my)); },
                SPMVGPU_LAMBDA(S & s, const Sums<T, 1>& sums) { s.rotate(real_of(sums[0])); });
        }

        // w = (v - oldeps w1 - delta w2) / gamma,  x = x + phi w,  v = M y / beta
        run.sweep(
            s, read(v, w1, w2, x, my), write(w, x, v),
            SPMVGPU_LAMBDA(const S& s, T v, T w1, T w2, T x, T my) {
                const T w = Real<T>(1 / s.gamma) * (v - Real<T>(s.oldeps) * w1 - Real<T>(s.delta) * w2);
                x = x + Real<T>(s.phi) * w;
                return put(w, x, s.beta > 0 ? Real<T>(1 / s.beta) * my : T(0)).sum(square(x));
            },
            SPMVGPU_LAMBDA(S & s, const Sums<T, 1>& sums) {
                if (s.status == Status::kRunning) s.test(root(real_of(sums[0])));
            });
    }
};

template <class T, class Queue>
void minres(Context<T, Queue>& solve) {
    using S = MinresScalars;
    auto& queue = solve.queue;
    const index_t n = solve.n;
    T *const x = solve.x, *const v = solve.vector(), *const my_memory = solve.vector();
    T* const ys[3] = {solve.vector(), solve.vector(), solve.vector()};
    T* const ws[3] = {solve.vector(), solve.vector(), solve.vector()};
    S initial;
    initial.eps = epsilon<T>();
    initial.gmin = std::numeric_limits<double>::max();
    initial.shift = solve.limits.shift;
    S* const s = solve.scalars(initial);
    T* const r = ys[0];
    if (!solve.start(s, r, initial.shift)) return solve.finish(s, v, initial.shift);

    const T* const my = solve.precondition(s, r, my_memory);
    if (solve.limits.check) check_symmetry(solve, s, r, my, ys[1], ys[2]);
    queue.sweep(
        s, n, read(r, my), write(v, ws[0], ws[1]),
        SPMVGPU_LAMBDA(const S&, T r, T my) { return put(my, T(0), T(0)).sum(dot(r, my)); },
        SPMVGPU_LAMBDA(S & s, const Sums<T, 1>& sums) {
            if (s.status == Status::kRunning) s.begin_lanczos(real_of(sums[0]));
        });
    queue.sweep(
        s, n, read(v, r), write(v, ys[2]),
        SPMVGPU_LAMBDA(const S& s, T v, T) { return put(Real<T>(1 / s.beta) * v, T(0)); });

    if (!solve.look(s)) {
        solve.iterate(s, 3, MinresIteration<T>{x, v, my_memory, {ys[0], ys[1], ys[2]}, {ws[0], ws[1], ws[2]}});
    }
    solve.finish(s, v, initial.shift);
}

}  // namespace spmvgpu
