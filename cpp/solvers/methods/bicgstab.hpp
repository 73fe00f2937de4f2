// The biconjugate gradient method, stabilised (van der Vorst 1992), preconditioned from the right as in SciPy:
//
//     r = b - A x,  f = r,  p = r,  rho = f.r
//     until |r| <= max(rtol |b|, atol):
//         v = A M p,  alpha = rho / f.v
//         r = r - alpha v                     if |r| is small enough now: x = x + alpha M p, and done
//         t = A M r,  omega = t.r / t.t
//         x = x + alpha M p + omega M r
//         r = r - omega t,  beta = (f.r / rho) (alpha / omega),  rho = f.r
//         p = r + beta (p - omega v)
#pragma once

#include "solvers/engines/context.hpp"

namespace spmvgpu {

template <class T>
struct BicgstabScalars : Progress {
    using W = Wide<T>;

    Factor<W> alpha, beta, omega;
    W rho{};
    double norm_f = 0;
    static constexpr double kTiny = epsilon<T>() * epsilon<T>();  // a smaller cosine counts as zero

    SPMVGPU_SCALAR void set_alpha(W fv) {
        if (status != Status::kRunning) {
            stopped = 1;  // the iteration that ended the solve has updated x by now
            return;
        }
        ++products, ++preconditionings;
        alpha = rho / fv;
        if (leaves_range(size_of(fv)) || leaves_range(size_of(alpha))) return;
        if (finite(size_of(alpha))) return;
        stop(size_of(fv) == 0 ? Status::kOmega : Status::kNotFinite, size_of(fv));
        stopped = 1;
    }

    SPMVGPU_SCALAR void set_omega(W tr, double tt, double rr) {
        ++products, ++preconditionings;
        const double size = size_of(tr);
        omega = W(0);
        if (status != Status::kRunning || leaves_range(tt)) return;
        // The cosine of the angle between t and r; if it is zero, no step along M r is of use.
        const bool is_useful = size > kTiny * root(tt) * root(rr);
        if (is_useful || !finite(size)) omega = tr / tt;
    }

    SPMVGPU_SCALAR void set_rho(W fr, double norm_r) {
        rho = fr;
        if (leaves_range(size_of(rho))) return;
        if (status == Status::kRunning && !(size_of(rho) > kTiny * norm_f * norm_r)) stop(Status::kRho, size_of(rho));
    }

    SPMVGPU_SCALAR void set_beta(W fr, double norm_r) {
        ++iterations;
        beta = (fr / rho) * (alpha.value / omega.value);
        judge(norm_r);
        set_rho(fr, norm_r);
        if (status == Status::kRunning && size_of(omega) == 0) stop(Status::kOmega, 0);
    }
};

template <class T>
struct Bicgstab {
    static constexpr const char* kName = "bicgstab";
    using S = BicgstabScalars<T>;

    S* s;
    T *x, *r, *f, *p, *v, *t;
    T *for_mp, *for_mr;  // M p and M r; null if there is no M

    explicit Bicgstab(Work<T>& work) : s(work.template scalars<S>()), x(work.x()), for_mp(nullptr), for_mr(nullptr) {
        work.vectors(r, f, p, v, t);
        if (work.has_preconditioner()) work.vectors(for_mp, for_mr);
    }

    S initial() const { return {}; }

    SPMVGPU_IN_RUN(class R)
    void operator()(R& run, S* s, std::int64_t) const {
        // v = A M p,  alpha = rho / f.v
        const T* const mp = run.precondition(s, p, for_mp);
        run.multiply(mp, v);
        run.reduce(
            s, read(f, v), [=] SPMVGPU_DEVICE(const S&, T f, T v) { return sum<T>(dot(f, v)); },
            [=] SPMVGPU_DEVICE(S & s, const Sums<T, 1>& sums) { s.set_alpha(sums[0]); });

        // r = r - alpha v
        run.sweep(
            s, read(r, v), write(r),
            [=] SPMVGPU_DEVICE(const S& s, T r, T v) {
                r = r - s.alpha * v;
                return put(r).sum(square(r));
            },
            [=] SPMVGPU_DEVICE(S & s, const Sums<T, 1>& sums) {
                const double norm = root(sums.real(0));
                if (norm <= s.goal) s.stop(Status::kConverged, norm);
            });

        // t = A M r,  omega = t.r / t.t
        const T* const mr = run.precondition(s, r, for_mr);
        run.multiply(mr, t);
        run.reduce(
            s, read(t, r), [=] SPMVGPU_DEVICE(const S&, T t, T r) { return sum<T>(dot(t, r), square(t), square(r)); },
            [=] SPMVGPU_DEVICE(S & s, const Sums<T, 3>& sums) { s.set_omega(sums[0], sums.real(1), sums.real(2)); });

        // x = x + alpha M p + omega M r
        run.sweep(s, read(x, mp, mr), write(x),
                  [=] SPMVGPU_DEVICE(const S& s, T x, T mp, T mr) { return put(x + s.alpha * mp + s.omega * mr); });

        // r = r - omega t,  beta = (f.r / rho) (alpha / omega)
        run.sweep(
            s, read(r, t, f), write(r),
            [=] SPMVGPU_DEVICE(const S& s, T r, T t, T f) {
                r = r - s.omega * t;
                return put(r).sum(square(r), dot(f, r));
            },
            [=] SPMVGPU_DEVICE(S & s, const Sums<T, 2>& sums) { s.set_beta(sums[1], root(sums.real(0))); });

        // p = r + beta (p - omega v)
        run.sweep(s, read(r, p, v), write(p),
                  [=] SPMVGPU_DEVICE(const S& s, T r, T p, T v) { return put(r + s.beta * (p - s.omega * v)); });
    }

    template <class Solve>
    void run(Solve& solve) const {
        do {
            // f = r,  p = r,  rho = f.r
            solve.sweep(
                s, read(r), write(f, p), [=] SPMVGPU_DEVICE(const S&, T r) { return put(r, r).sum(dot(r, r)); },
                [=] SPMVGPU_DEVICE(S & s, const Sums<T, 1>& sums) {
                    s.norm_f = root(sums.real(0));
                    s.set_rho(sums[0], s.norm_f);
                });
            solve.iterate(s, 1, *this);
        } while (solve.goes_on(s, r));
    }
};

}  // namespace spmvgpu
