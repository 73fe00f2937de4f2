// Conjugate gradients (Hestenes and Stiefel 1952), preconditioned (Saad, Iterative Methods for Sparse Linear Systems,
// algorithm 9.1):
//
//     r = b - A x,  p = M r,  rho = r.Mr
//     until |r| <= max(rtol |b|, atol):
//         q = A p
//         alpha = rho / p.q
//         r = r - alpha q,  beta = r.Mr / rho,  rho = r.Mr
//         x = x + alpha p,  p = M r + beta p
//
// x is updated late, where p is read anyway, and z = M r is stored only where M is no diagonal: 10 passes over vectors
// an iteration, 8 where the product leaves p.q, and 2 more with a diagonal.
#pragma once

#include "solvers/engines/context.hpp"

namespace spmvgpu {

struct CgScalars : Progress {
    double alpha = 0, beta = 0, rho = 0;

    constexpr void curvature(double pq) {
        if (status != Status::kRunning) {
            stopped = 1;  // the iteration that ended the solve has updated x by now
            return;
        }
        ++products;
        alpha = rho / pq;
        if (leaves_range(pq) || leaves_range(alpha)) return;
        if (finite(pq) && finite(alpha) && pq > 0) return;
        stop(finite(pq) ? Status::kIndefinite : Status::kNotFinite, pq);
        stopped = 1;
    }

    constexpr void next_rho(double r_mr) {
        beta = r_mr / rho;
        rho = r_mr;
        if (leaves_range(rho)) return;
        if (status == Status::kRunning && !(rho > 0 && finite(rho))) stop(Status::kBadPreconditioner, rho);
    }
};

template <class T>
struct CgIteration {
    T *x, *r, *p, *q;
    T* stored_z;  // M r, if M is no diagonal
    const T* m;   // otherwise the diagonal, if there is any M

    SPMVGPU_ITERATION void operator()(Run& run, CgScalars* s, std::int64_t) const {
        using S = CgScalars;
        const bool has_rho = stored_z == nullptr;
        const T* const z = has_rho ? r : stored_z;  // to be multiplied by m

        // q = A p,  alpha = rho / p.q
        run.multiply_and_dot(
            s, p, q, SPMVGPU_LAMBDA(S & s, const Sums<T, 1>& sums) { s.curvature(real_of(sums[0])); });

        // r = r - alpha q,  beta = r.Mr / rho
        run.sweep(
            s, read(r, q, maybe(m)), write(r),
            SPMVGPU_LAMBDA(const S& s, T r, T q, T m) {
                r = r - Real<T>(s.alpha) * q;
                return put(r).sum(square(r), dot(r, T(m * r)));
            },
            SPMVGPU_LAMBDA(S & s, const Sums<T, 2>& sums) {
                ++s.iterations;
                s.judge(root(real_of(sums[0])));
                if (has_rho) s.next_rho(real_of(sums[1]));
            });
        if (!has_rho) {
            run.precondition(s, r, stored_z);
            run.sweep(
                s, read(r, z), SPMVGPU_LAMBDA(const S&, T r, T z) { return sum<T>(dot(r, z)); },
                SPMVGPU_LAMBDA(S & s, const Sums<T, 1>& sums) {
                    ++s.preconditionings;
                    s.next_rho(real_of(sums[0]));
                });
        }

        // x = x + alpha p,  p = M r + beta p
        run.sweep(
            s, read(x, p, z, maybe(m)), write(x, p), SPMVGPU_LAMBDA(const S& s, T x, T p, T z, T m) {
                return put(x + Real<T>(s.alpha) * p, m * z + Real<T>(s.beta) * p);
            });
    }
};

template <class T, class Queue>
void cg(Context<T, Queue>& solve) {
    using S = CgScalars;
    auto& queue = solve.queue;
    const index_t n = solve.n;
    T *const x = solve.x, *const r = solve.vector(), *const p = solve.vector(), *const q = solve.vector();
    T* const stored_z = solve.has_operator() ? solve.vector() : nullptr;
    const T* const m = solve.diagonal();
    S* const s = solve.scalars(S{});
    if (!solve.start(s, r)) return solve.finish(s);

    do {
        const T* const z = stored_z != nullptr ? solve.precondition(s, r, stored_z) : r;  // to be multiplied by m
        queue.sweep(
            s, n, read(r, z, maybe(m)), write(p),
            SPMVGPU_LAMBDA(const S&, T r, T z, T m) {
                const T mr = m * z;
                return put(mr).sum(dot(r, mr));
            },
            SPMVGPU_LAMBDA(S & s, const Sums<T, 1>& sums) { s.next_rho(real_of(sums[0])); });
        solve.iterate(s, 1, CgIteration<T>{x, r, p, q, stored_z, m});
    } while (solve.goes_on(s, r));
    solve.finish(s);
}

}  // namespace spmvgpu
