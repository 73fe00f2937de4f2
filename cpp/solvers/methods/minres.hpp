// The minimal residual method for symmetric systems that need not be definite (Paige and Saunders 1975), with the names
// of SciPy's: Lanczos vectors v = y / beta of A - shift I, whose tridiagonal matrix is made triangular by rotations as
// it grows.
//
//     y = (A - shift) v - (beta / oldb) r1,  alfa = v.y
//     y = y - (alfa / beta) r2               r1, r2 = r2, y
//     oldb = beta,  beta = sqrt(y.My)        rotations: oldeps, delta, gamma, phi
//     w = (v - oldeps w1 - delta w2) / gamma  w1, w2 = w2, w
//     x = x + phi w,  v = M y / beta
//
// The vectors that the others turn into take turns in three places each.
//
// phibar is the residual's norm sqrt(r.Mr). Its norm |r|, by which the solve ends, is taken for phibar times what |r|
// was of it when it was last computed: at the beginning, and whenever the solve seems to be over. If it is not, the
// iterations go on where they were, with the ratio as it is now, or else begin anew.
#pragma once

#include "solvers/engines/context.hpp"

namespace spmvgpu {

struct MinresScalars : Progress {
    double eps = 0, shift = 0;
    double beta = 0, oldb = 0, alfa = 0, dbar = 0, epsln = 0, phibar = 0, cs = -1, sn = 0;
    double gmax = 0, oldeps = 0, delta = 0, inverse_gamma = 1, phi = 0, rootl = 0;
    double ratio = 1;         // of |r| to phibar
    double first_phibar = 0;  // where these Lanczos vectors began
    bool has_m = false;

    // The first Lanczos vector, from r.Mr and r.r.
    SPMVGPU_SCALAR void begin_lanczos(double r_mr, double rr) {
        if (leaves_range(r_mr)) return;
        if (!finite(r_mr)) return stop(Status::kNotFinite, r_mr);
        if (r_mr <= 0) return stop(Status::kBadPreconditioner, r_mr);
        beta = phibar = first_phibar = root(r_mr);
        ratio = root(rr) / phibar;
        oldb = dbar = epsln = sn = gmax = 0;
        cs = -1;
    }

    SPMVGPU_SCALAR void compare(double one, double other, Status otherwise) {
        if (status != Status::kRunning) return;
        const double difference = size_of(one - other), allowed = (one + eps) * ::cbrt(eps);
        if (difference > allowed) stop(otherwise, difference);
    }

    // The rest of the iteration's coefficients, from alfa and y.My.
    SPMVGPU_SCALAR void rotate(double y_my) {
        ++preconditionings;
        if (leaves_range(alfa * alfa + size_of(y_my))) return;
        if (!finite(y_my)) return stop(Status::kNotFinite, y_my);
        if (y_my < 0) {
            stop(Status::kBadPreconditioner, y_my);
            stopped = 1;
            return;
        }
        oldb = beta;
        beta = root(y_my);
        oldeps = epsln;
        delta = cs * dbar + sn * alfa;
        const double gbar = sn * dbar - cs * alfa;
        epsln = sn * beta;
        dbar = -cs * beta;
        rootl = root(gbar * gbar + dbar * dbar);
        const double gamma = root(gbar * gbar + beta * beta);
        gmax = gamma > gmax ? gamma : gmax;
        // Where A maps all of the space to zero that is left, no step is of use.
        const bool is_singular = !(gamma > eps * gmax);
        inverse_gamma = is_singular ? 0 : 1 / gamma;
        cs = is_singular ? 0 : gbar / gamma;
        sn = is_singular ? 1 : beta / gamma;
        phi = cs * phibar;
        phibar = sn * phibar;
    }

    // Whether the solve is over, with x of this squared norm.
    SPMVGPU_SCALAR void test(double xx) {
        if (xx > 0 && leaves_range(xx)) return;
        ++iterations;
        const double norm_x = root(xx), norm_r = ratio * phibar;
        record(norm_r);
        if (!finite(norm_x) || !finite(norm_r)) return stop(Status::kNotFinite, norm_x);
        if (norm_r <= goal) {
            stop(Status::kConverged, norm_r);
        } else if (rootl <= root(eps) * gmax && cs * cs <= 100 * eps) {
            // |A r| is small, as it never becomes much smaller by rounding, and |r| has ceased to fall.
            stop(Status::kLeastSquares, norm_r);
        } else if (phibar <= eps * (has_m ? first_phibar : gmax * norm_x)) {
            stop(Status::kStagnated, norm_r);  // by as much r may be wrong
        } else if (iterations >= maxiter) {
            stop(Status::kExhausted, norm_r);
        }
    }
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
    T *x, *v;
    T* product;  // A v, which is queued beyond the end, too, and so has a place of its own; then M y, if there is an M
    T *ys[3], *ws[3];

    // The same after so many iterations, counted from 0 again.
    MinresIteration after(std::int64_t k) const {
        const auto at = [k](T* const(&vectors)[3], int i) { return vectors[(k + i) % 3]; };
        return {x, v, product, {at(ys, 0), at(ys, 1), at(ys, 2)}, {at(ws, 0), at(ws, 1), at(ws, 2)}};
    }

    // Where the next iteration puts its y, which no iteration reads before.
    T* unread() const { return ys[1]; }

    SPMVGPU_ITERATION void operator()(Run& run, MinresScalars* s, std::int64_t k) const {
        using S = MinresScalars;
        const bool is_plain = !run.has_preconditioner();
        const std::int64_t first = k % 3, second = (k + 1) % 3, third = (k + 2) % 3;
        T *const r1 = ys[third], *const r2 = ys[first], *const y = ys[second];
        T *const w1 = ws[first], *const w2 = ws[second], *const w = ws[third];

        // y = (A - shift) v - (beta / oldb) r1,  alfa = v.y
        run.multiply(v, product);
        run.sweep(
            s, read(product, v, r1), write(y),
            SPMVGPU_LAMBDA(const S& s, T av, T v, T r1) {
                const double ratio = s.oldb > 0 ? s.beta / s.oldb : 0;
                const T y = av - Real<T>(s.shift) * v - Real<T>(ratio) * r1;
                return put(y).sum(dot(v, y));
            },
            SPMVGPU_LAMBDA(S & s, const Sums<T, 1>& sums) {
                if (s.status != Status::kRunning) {
                    s.stopped = 1;
                    return;
                }
                ++s.products;
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
        const T* const my = run.precondition(s, y, product);
        if (!is_plain) {
            run.sweep(
                s, read(y, my), SPMVGPU_LAMBDA(const S&, T y, T my) { return sum<T>(dot(y, my)); },
                SPMVGPU_LAMBDA(S & s, const Sums<T, 1>& sums) { s.rotate(real_of(sums[0])); });
        }

        // w = (v - oldeps w1 - delta w2) / gamma,  x = x + phi w,  v = M y / beta
        run.sweep(
            s, read(v, w1, w2, x, my), write(w, x, v),
            SPMVGPU_LAMBDA(const S& s, T v, T w1, T w2, T x, T my) {
                const T w = Real<T>(s.inverse_gamma) * (v - Real<T>(s.oldeps) * w1 - Real<T>(s.delta) * w2);
                x = x + Real<T>(s.phi) * w;
                return put(w, x, s.beta > 0 ? Real<T>(1 / s.beta) * my : T(0)).sum(square(x));
            },
            SPMVGPU_LAMBDA(S & s, const Sums<T, 1>& sums) {
                if (s.status == Status::kRunning) s.test(real_of(sums[0]));
            });
    }
};

// Begins with the Lanczos vectors of a residual, which is the first of the places of y.
template <class T, class Queue>
void begin_minres(Context<T, Queue>& solve, MinresScalars* s, const MinresIteration<T>& iteration) {
    using S = MinresScalars;
    T *const v = iteration.v, *const *const ys = iteration.ys, *const *const ws = iteration.ws;
    const T* const r = ys[0];
    const T* const my = solve.precondition(s, r, iteration.product);
    if (solve.limits.check) check_symmetry(solve, s, r, my, ys[1], ys[2]);
    solve.sweep(
        s, read(r, my), write(v, ws[0], ws[1]),
        SPMVGPU_LAMBDA(const S&, T r, T my) { return put(my, T(0), T(0)).sum(dot(r, my), square(r)); },
        SPMVGPU_LAMBDA(S & s, const Sums<T, 2>& sums) {
            if (s.status == Status::kRunning) s.begin_lanczos(real_of(sums[0]), real_of(sums[1]));
        });
    solve.sweep(
        s, read(v, r), write(v, ys[2]),
        SPMVGPU_LAMBDA(const S& s, T v, T) { return put(Real<T>(1 / s.beta) * v, T(0)); });
}

// Looks whether |A r| is as small as the iterations say, which without M is that of r = b - A x.
template <class T, class Queue>
void check_least_squares(Context<T, Queue>& solve, MinresScalars* s, const T* r, T* ar) {
    using S = MinresScalars;
    const double shift = solve.shift();
    solve.multiply(r, ar);
    solve.sweep(
        s, read(r, ar),
        SPMVGPU_LAMBDA(const S&, T r, T ar) { return sum<T>(square(r), square(T(ar - Real<T>(shift) * r))); },
        SPMVGPU_LAMBDA(S & s, const Sums<T, 2>& sums) {
            const double allowed = 10 * root(s.eps) * s.gmax * root(real_of(sums[0]));
            if (!(root(real_of(sums[1])) <= allowed)) s.status = Status::kStagnated;
        });
}

template <class T, class Queue>
void minres(Context<T, Queue>& solve) {
    using Truth = typename Context<T, Queue>::Truth;
    MinresIteration<T> iteration{solve.x, solve.vector(), solve.vector(), {}, {}};
    for (T*& y : iteration.ys) y = solve.vector();
    for (T*& w : iteration.ws) w = solve.vector();
    MinresScalars initial;
    initial.eps = epsilon<T>();
    initial.shift = solve.shift();
    initial.has_m = solve.has_preconditioner();
    MinresScalars* const s = solve.scalars(initial);
    if (!solve.start(s, iteration.ys[0])) return solve.finish(s);

    begin_minres(solve, s, iteration);
    // With an M, |r| may not be what phibar says of it, so the same Lanczos vectors get a second chance.
    const int chances = solve.has_preconditioner() ? 2 : 1;
    int misses = 0;
    for (double began_at = solve.kInfinity;;) {
        const std::int64_t before = solve.queue.read_scalars(s).iterations;
        if (!solve.look(s)) solve.iterate(s, 3, iteration);
        const MinresScalars said = solve.queue.read_scalars(s);
        iteration = iteration.after(said.iterations - before);
        T* const r = iteration.unread();
        const Truth truth = solve.verify(s, r);
        misses = truth == Truth::kNoBetter ? misses + 1 : 0;
        const bool is_at_end = truth == Truth::kNoBetter && (misses == chances || said.status != Status::kConverged);
        if (truth == Truth::kOver || (is_at_end && !(solve.true_residual() < 0.5 * began_at))) {
            const bool is_nearest = solve.queue.read_scalars(s).status == Status::kLeastSquares;
            if (is_nearest && !solve.has_preconditioner()) check_least_squares(solve, s, r, iteration.product);
            return solve.finish(s);
        }
        if (truth == Truth::kNoBetter && !solve.revive(s)) return solve.finish(s);
        MinresScalars now = solve.queue.read_scalars(s);
        const double ratio = solve.true_residual() / now.phibar;
        if (is_at_end || !(now.phibar > 0) || !finite(ratio)) {
            began_at = solve.true_residual();
            misses = 0;
            iteration = iteration.after(1);
            begin_minres(solve, s, iteration);
        } else {
            now.ratio = ratio;
            solve.queue.put_scalars(s, now);
        }
    }
}

}  // namespace spmvgpu
