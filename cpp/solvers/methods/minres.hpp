// The minimal residual method for symmetric systems that need not be definite (Paige and Saunders 1975), with SciPy's
// names: Lanczos vectors v = y / beta of A - shift I, whose tridiagonal matrix is made triangular by rotations as it
// grows.
//
//     y = (A - shift) v - (beta / oldb) r1,  alfa = v.y
//     y = y - (alfa / beta) r2               r1, r2 = r2, y
//     oldb = beta,  beta = sqrt(y.My)        rotations: oldeps, delta, gamma, phi
//     w = (v - oldeps w1 - delta w2) / gamma  w1, w2 = w2, w
//     x = x + phi w,  v = M y / beta
//
// The rotating vectors have three places each.
//
// phibar is the residual's norm sqrt(r.Mr). The norm |r|, which ends the solve, is estimated as phibar times the ratio
// of the two when |r| was last computed: at the beginning, and whenever the solve seems to be over. If it is not, the
// iterations continue with the new ratio, or else restart.
#pragma once

#include "solvers/engines/context.hpp"

namespace spmvgpu {

struct MinresScalars : Progress {
    double beta = 0, oldb = 0, alfa = 0, dbar = 0, epsln = 0, phibar = 0, cs = -1, sn = 0;
    double gmax = 0, rootl = 0;
    Factor<double> oldeps, delta, inverse_gamma = 1, phi;
    double ratio = 1;         // |r| / phibar
    double first_phibar = 0;  // phibar at the first of these Lanczos vectors
    bool is_careful = false;  // stops once |A r| is small

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

    constexpr void set_alfa(double v_y) {
        if (status != Status::kRunning) {
            stopped = 1;
            return;
        }
        ++products;
        alfa = v_y;
    }

    // The remaining coefficients of the iteration, from alfa and y.My.
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
        // rootl is |A r| / |r| for the r before. If it is a rounding error, the step would be one along the null space,
        // of any length.
        const bool is_singular = !(rootl > (is_careful ? root(eps) : 4 * eps) * gmax);
        inverse_gamma = is_singular ? 0 : 1 / gamma;
        cs = is_singular ? 0 : gbar / gamma;
        sn = is_singular ? 1 : beta / gamma;
        phi = cs * phibar;
        phibar = sn * phibar;
    }

    // Checks if x is a least-squares solution, according to the iterations, with |A r| of this size and |r| = phibar.
    SPMVGPU_SCALAR void check_least_squares(double norm_ar) {
        if (status != Status::kLeastSquares) return;
        if (norm_ar <= 10 * root(eps) * gmax * phibar) return;
        status = is_careful || iterations >= maxiter ? Status::kStagnated : Status::kRunning;
        is_careful = true;
    }

    // Ends the solve if it is over, with x of this squared norm.
    SPMVGPU_SCALAR void test(double xx) {
        if (xx > 0 && leaves_range(xx)) return;
        ++iterations;
        const double norm_x = root(xx), norm_r = ratio * phibar;
        record(norm_r);
        if (!finite(norm_x) || !finite(norm_r)) return stop(Status::kNotFinite, norm_x);
        if (norm_r <= goal) {
            stop(Status::kConverged, norm_r);
        } else if (rootl <= root(eps) * gmax && cs * cs <= 100 * eps) {
            // |A r| is small, though rounding keeps it from becoming much smaller, and |r| has ceased to fall.
            stop(Status::kLeastSquares, norm_r);
        } else if (phibar <= eps * (has_m ? first_phibar : gmax * norm_x)) {
            // r may be wrong by as much. If it has hardly fallen, so large an x is one of the null space.
            stop(phibar > 0.01 * first_phibar ? Status::kLeastSquares : Status::kStagnated, norm_r);
        } else if (iterations >= maxiter) {
            stop(Status::kExhausted, norm_r);
        }
    }
};

template <class T>
struct Minres {
    static constexpr const char* kName = "minres";
    using S = MinresScalars;

    S* s;
    T *x, *r;        // r shares the first place of y
    T *v, *product;  // A v, which is queued beyond the end, too, and so has a place of its own; then M y, if there is M
    T *ys[3], *ws[3];

    explicit Minres(Work<T>& work) : s(work.template scalars<S>()), x(work.x()) {
        work.vectors(v, product, ys[0], ys[1], ys[2], ws[0], ws[1], ws[2]);
        r = ys[0];
    }

    S initial() const { return {}; }

    // The method with its vectors in their roles after this many iterations, counted from 0 again.
    Minres after(std::int64_t k) const {
        Minres later = *this;
        for (int i = 0; i < 3; ++i) {
            later.ys[i] = ys[(k + i) % 3];
            later.ws[i] = ws[(k + i) % 3];
        }
        later.r = later.ys[0];
        return later;
    }

    // The place of the next iteration's y, which no iteration reads before.
    T* unread() const { return ys[1]; }

    SPMVGPU_IN_RUN(class R)
    void operator()(R& run, S* s, std::int64_t k) const {
        const bool is_plain = !run.has_preconditioner();
        const std::int64_t first = k % 3, second = (k + 1) % 3, third = (k + 2) % 3;
        T *const r1 = ys[third], *const r2 = ys[first], *const y = ys[second];
        T *const w1 = ws[first], *const w2 = ws[second], *const w = ws[third];

        // y = (A - shift) v - (beta / oldb) r1,  alfa = v.y
        run.multiply(v, product);
        run.sweep(
            s, read(product, v, r1), write(y),
            [=] SPMVGPU_DEVICE(const S& s, T av, T v, T r1) {
                const Factor<double> ratio = s.oldb > 0 ? s.beta / s.oldb : 0;
                const T y = av - s.shift * v - ratio * r1;
                return put(y).sum(dot(v, y));
            },
            [=] SPMVGPU_DEVICE(S & s, const Sums<T, 1>& sums) { s.set_alfa(sums.real(0)); });

        // y = y - (alfa / beta) r2,  beta = sqrt(y.My)
        run.sweep(
            s, read(y, r2), write(y),
            [=] SPMVGPU_DEVICE(const S& s, T y, T r2) {
                y = y - Factor<double>(s.alfa / s.beta) * r2;
                return put(y).sum(square(y));
            },
            [=] SPMVGPU_DEVICE(S & s, const Sums<T, 1>& sums) {
                if (is_plain) s.rotate(sums.real(0));
            });
        const T* const my = run.precondition(s, y, product);
        if (!is_plain) {
            run.reduce(
                s, read(y, my), [=] SPMVGPU_DEVICE(const S&, T y, T my) { return sum<T>(dot(y, my)); },
                [=] SPMVGPU_DEVICE(S & s, const Sums<T, 1>& sums) { s.rotate(sums.real(0)); });
        }

        // w = (v - oldeps w1 - delta w2) / gamma,  x = x + phi w,  v = M y / beta
        run.sweep(
            s, read(v, w1, w2, x, my), write(w, x, v),
            [=] SPMVGPU_DEVICE(const S& s, T v, T w1, T w2, T x, T my) {
                const T w = s.inverse_gamma * (v - s.oldeps * w1 - s.delta * w2);
                x = x + s.phi * w;
                return put(w, x, s.beta > 0 ? Factor<double>(1 / s.beta) * my : T(0)).sum(square(x));
            },
            [=] SPMVGPU_DEVICE(S & s, const Sums<T, 1>& sums) {
                if (s.status == Status::kRunning) s.test(sums.real(0));
            });
    }

    // v = M r / beta, from r in the first place of y.
    template <class Solve>
    void begin(Solve& solve) const {
        const T* const my = solve.precondition(s, r, product);
        if (solve.limits.check) check_symmetry(solve, my, ys[1], ys[2]);
        solve.sweep(
            s, read(r, my), write(v, ws[0], ws[1]),
            [=] SPMVGPU_DEVICE(const S&, T r, T my) { return put(my, T(0), T(0)).sum(dot(r, my), square(r)); },
            [=] SPMVGPU_DEVICE(S & s, const Sums<T, 2>& sums) {
                if (s.status == Status::kRunning) s.begin_lanczos(sums.real(0), sums.real(1));
            });
        solve.sweep(s, read(v, r), write(v, ys[2]),
                    [=] SPMVGPU_DEVICE(const S& s, T v, T) { return put(Factor<double>(1 / s.beta) * v, T(0)); });
    }

    // SciPy's check of symmetry, with y = M r: w = A y and A w, and likewise for M.
    template <class Solve>
    void check_symmetry(Solve& solve, const T* y, T* w, T* aw) const {
        solve.multiply(y, w);
        solve.multiply(w, aw);
        solve.reduce(
            s, read(w, y, aw), [=] SPMVGPU_DEVICE(const S&, T w, T y, T aw) { return sum<T>(square(w), dot(y, aw)); },
            [=] SPMVGPU_DEVICE(S & s, const Sums<T, 2>& sums) {
                s.compare(sums.real(0), sums.real(1), Status::kUnsymmetric);
            });
        if (!solve.has_preconditioner()) return;
        const T* const my = solve.precondition(s, y, w);
        solve.reduce(
            s, read(y, r, my), [=] SPMVGPU_DEVICE(const S&, T y, T r, T my) { return sum<T>(square(y), dot(r, my)); },
            [=] SPMVGPU_DEVICE(S & s, const Sums<T, 2>& sums) {
                s.compare(sums.real(0), sums.real(1), Status::kUnsymmetricM);
            });
    }

    // Checks if |A r| is as small as the iterations say, for r = b - A x, in the norm of M: |A M r|. If it is not, a
    // step along the null space has spoilt x, and the solve restarts from zero, now carefully.
    template <class Solve>
    void check_least_squares(Solve& solve, T* true_r) const {
        if (!has_any(solve, Status::kLeastSquares)) return;
        const T* const mr = solve.precondition(s, true_r, v);
        const Factor<double> shift = solve.shift();
        solve.multiply(mr, product);
        solve.sweep(
            s, read(true_r, mr, product), write(product),
            [=] SPMVGPU_DEVICE(const S&, T r, T mr, T amr) { return put(T(amr - shift * mr)).sum(dot(r, mr)); },
            [=] SPMVGPU_DEVICE(S & s, const Sums<T, 1>& sums) { s.phibar = root(sums.real(0)); });
        const T* const mamr = solve.precondition(s, product, true_r);
        solve.reduce(
            s, read(product, mamr), [=] SPMVGPU_DEVICE(const S&, T amr, T mamr) { return sum<T>(dot(amr, mamr)); },
            [=] SPMVGPU_DEVICE(S & s, const Sums<T, 1>& sums) { s.check_least_squares(root(sums.real(0))); });
        solve.sweep(s, read(solve.b(), x, r), write(x, r), [=] SPMVGPU_DEVICE(const S& s, T b, T x, T r) {
            const bool is_new = s.status == Status::kRunning;
            return put(is_new ? T(0) : x, is_new ? b : r);
        });
    }

    // With several columns, which end after different numbers of iterations and whose vectors are in different roles
    // then, the columns that are not over restart.
    template <class Solve>
    void run_columns(Solve& solve) const {
        do {
            do {
                begin(solve);
                solve.iterate(s, 3, *this);
            } while (solve.goes_on(s, r));
            check_least_squares(solve, r);
        } while (has_any(solve, Status::kRunning));
    }

    template <class Solve>
    bool has_any(Solve& solve, Status status) const {
        const std::vector<S> now = solve.queue.read_columns(s);
        return std::any_of(now.begin(), now.end(), [=](const S& of) { return of.status == status; });
    }

    template <class Solve>
    void run(Solve& solve) const {
        if (solve.columns() > 1) return run_columns(solve);
        Minres iteration = *this;
        iteration.begin(solve);
        // With an M, |r| may differ from its estimate, so the same Lanczos vectors get a second chance.
        const int chances = solve.has_preconditioner() ? 2 : 1;
        int misses = 0;
        for (double began_at = solve.kInfinity;;) {
            const std::int64_t before = solve.queue.read_scalars(s).iterations;
            if (!solve.is_over(s)) solve.iterate(s, 3, iteration);
            const S said = solve.queue.read_scalars(s);
            iteration = iteration.after(said.iterations - before);
            T* const true_r = iteration.unread();
            const Truth truth = solve.verify(s, true_r);
            misses = truth == Truth::kNoBetter ? misses + 1 : 0;
            const bool is_at_end =
                truth == Truth::kNoBetter && (misses == chances || said.status != Status::kConverged);
            if (truth == Truth::kOver || (is_at_end && !(solve.true_residual() < 0.5 * began_at))) {
                check_least_squares(solve, true_r);
                if (!has_any(solve, Status::kRunning)) return;
                began_at = solve.kInfinity;
                misses = 0;
                iteration = *this;
                iteration.begin(solve);
                continue;
            }
            if (truth == Truth::kNoBetter && !solve.revive(s)) return;
            S now = solve.queue.read_scalars(s);
            const double ratio = solve.true_residual() / now.phibar;
            if (is_at_end || !(now.phibar > 0) || !finite(ratio)) {
                began_at = solve.true_residual();
                misses = 0;
                iteration = iteration.after(1);
                iteration.begin(solve);
            } else {
                now.ratio = ratio;
                solve.queue.put_scalars(s, now);
            }
        }
    }
};

}  // namespace spmvgpu
