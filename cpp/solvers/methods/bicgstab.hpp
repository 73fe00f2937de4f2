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

    W alpha{}, beta{}, omega{}, rho{};
    double tiny = 0;    // below which a cosine is taken for zero
    double norm_f = 0;  // |f|

    SPMVGPU_SCALAR void check_rho(W value, double norm_r) {
        rho = value;
        if (leaves_range(size_of(rho))) return;
        if (status == Status::kRunning && !(size_of(rho) > tiny * norm_f * norm_r)) stop(Status::kRho, size_of(rho));
    }
};

template <class T>
struct BicgstabIteration {
    T *x, *r, *f, *p, *v, *t;
    T *mp_memory, *mr_memory;  // for M p and M r, if there is an M

    SPMVGPU_ITERATION void operator()(Run& run, BicgstabScalars<T>* s, std::int64_t) const {
        using S = BicgstabScalars<T>;

        // v = A M p,  alpha = rho / f.v
        const T* const mp = run.precondition(s, p, mp_memory);
        run.multiply(mp, v);
        run.sweep(
            s, read(f, v), SPMVGPU_LAMBDA(const S&, T f, T v) { return sum<T>(dot(f, v)); },
            SPMVGPU_LAMBDA(S & s, const Sums<T, 1>& sums) {
                if (s.status != Status::kRunning) {
                    s.stopped = 1;  // the iteration that ended the solve has updated x by now
                    return;
                }
                ++s.products, ++s.preconditionings;
                s.alpha = s.rho / sums[0];
                if (s.leaves_range(size_of(sums[0])) || s.leaves_range(size_of(s.alpha))) return;
                if (finite(size_of(s.alpha))) return;
                s.stop(size_of(sums[0]) == 0 ? Status::kOmega : Status::kNotFinite, size_of(sums[0]));
                s.stopped = 1;
            });

        // r = r - alpha v
        run.sweep(
            s, read(r, v), write(r),
            SPMVGPU_LAMBDA(const S& s, T r, T v) {
                r = r - T(s.alpha) * v;
                return put(r).sum(square(r));
            },
            SPMVGPU_LAMBDA(S & s, const Sums<T, 1>& sums) {
                const double norm = root(real_of(sums[0]));
                if (norm <= s.goal) s.stop(Status::kConverged, norm);
            });

        // t = A M r,  omega = t.r / t.t
        const T* const mr = run.precondition(s, r, mr_memory);
        run.multiply(mr, t);
        run.sweep(
            s, read(t, r), SPMVGPU_LAMBDA(const S&, T t, T r) { return sum<T>(dot(t, r), square(t), square(r)); },
            SPMVGPU_LAMBDA(S & s, const Sums<T, 3>& sums) {
                ++s.products, ++s.preconditionings;
                const double tt = real_of(sums[1]), size = size_of(sums[0]);
                s.omega = Wide<T>(0);
                if (s.status != Status::kRunning || s.leaves_range(tt)) return;
                // The cosine of the angle between t and r; where it is zero, no step along M r is of use.
                const bool is_useful = size > s.tiny * root(tt) * root(real_of(sums[2]));
                if (is_useful || !finite(size)) s.omega = sums[0] / tt;
            });

        // x = x + alpha M p + omega M r
        run.sweep(
            s, read(x, mp, mr), write(x),
            SPMVGPU_LAMBDA(const S& s, T x, T mp, T mr) { return put(x + T(s.alpha) * mp + T(s.omega) * mr); });

        // r = r - omega t,  beta = (f.r / rho) (alpha / omega)
        run.sweep(
            s, read(r, t, f), write(r),
            SPMVGPU_LAMBDA(const S& s, T r, T t, T f) {
                r = r - T(s.omega) * t;
                return put(r).sum(square(r), dot(f, r));
            },
            SPMVGPU_LAMBDA(S & s, const Sums<T, 2>& sums) {
                ++s.iterations;
                s.beta = (sums[1] / s.rho) * (s.alpha / s.omega);
                const double norm = root(real_of(sums[0]));
                s.judge(norm);
                s.check_rho(sums[1], norm);
                if (s.status == Status::kRunning && size_of(s.omega) == 0) s.stop(Status::kOmega, 0);
            });

        // p = r + beta (p - omega v)
        run.sweep(
            s, read(r, p, v), write(p),
            SPMVGPU_LAMBDA(const S& s, T r, T p, T v) { return put(r + T(s.beta) * (p - T(s.omega) * v)); });
    }
};

template <class T, class Queue>
void bicgstab(Context<T, Queue>& solve) {
    using S = BicgstabScalars<T>;
    auto& queue = solve.queue;
    const index_t n = solve.n;
    T *const x = solve.x, *const r = solve.vector(), *const f = solve.vector(), *const p = solve.vector(),
             *const v = solve.vector(), *const t = solve.vector(), *const mp_memory = solve.vector(),
             *const mr_memory = solve.vector();
    S initial;
    initial.tiny = epsilon<T>() * epsilon<T>();
    S* const s = solve.scalars(initial);
    if (!solve.start(s, r)) return solve.finish(s);

    do {
        queue.sweep(
            s, n, read(r), write(f, p), SPMVGPU_LAMBDA(const S&, T r) { return put(r, r).sum(dot(r, r)); },
            SPMVGPU_LAMBDA(S & s, const Sums<T, 1>& sums) {
                s.norm_f = root(real_of(sums[0]));
                s.check_rho(sums[0], s.norm_f);
            });
        solve.iterate(s, 1, BicgstabIteration<T>{x, r, f, p, v, t, mp_memory, mr_memory});
    } while (solve.goes_on(s, r));
    solve.finish(s);
}

}  // namespace spmvgpu
