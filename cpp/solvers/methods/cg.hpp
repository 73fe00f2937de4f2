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
    Factor<double> alpha, beta;
    double rho = 0;

    constexpr void set_alpha(double pq) {
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

    constexpr void set_beta(double r_mr) {
        beta = r_mr / rho;
        rho = r_mr;
        if (leaves_range(rho)) return;
        if (status == Status::kRunning && !(rho > 0 && finite(rho))) stop(Status::kBadPreconditioner, rho);
    }
};

template <class T>
struct Cg {
    static constexpr const char* kName = "cg";
    using S = CgScalars;

    S* s;
    T *x, *r, *p, *q;
    T* z;              // M r; null if M is a diagonal m or none, whose M r is m r
    const T* m;        // that diagonal; null: ones
    Wide<T>* p_dot_q;  // its parts, where the product leaves them

    explicit Cg(Work<T>& work) : s(work.template scalars<S>()), x(work.x()), z(nullptr), m(work.diagonal()) {
        work.vectors(r, p, q);
        if (work.has_operator()) work.vectors(z);
        p_dot_q = work.parts_of_dot();
    }

    S initial() const { return {}; }

    SPMVGPU_ITERATION void operator()(Run& run, S* s, std::int64_t) const {
        const bool stores_z = z != nullptr;
        const T* const r_or_z = stores_z ? z : r;  // to be multiplied by m

        // q = A p,  alpha = rho / p.q
        run.multiply_and_dot(s, p, q, p_dot_q,
                             [=] SPMVGPU_DEVICE(S & s, const Sums<T, 1>& sums) { s.set_alpha(sums.real(0)); });

        // r = r - alpha q,  beta = r.Mr / rho
        run.sweep(
            s, read(r, q, maybe(m)), write(r),
            [=] SPMVGPU_DEVICE(const S& s, T r, T q, T m) {
                r = r - s.alpha * q;
                return put(r).sum(square(r), dot(r, T(m * r)));
            },
            [=] SPMVGPU_DEVICE(S & s, const Sums<T, 2>& sums) {
                ++s.iterations;
                s.judge(root(sums.real(0)));
                if (!stores_z) s.set_beta(sums.real(1));
            });
        if (stores_z) {
            run.precondition(s, r, z);
            run.reduce(
                s, read(r, r_or_z), [=] SPMVGPU_DEVICE(const S&, T r, T z) { return sum<T>(dot(r, z)); },
                [=] SPMVGPU_DEVICE(S & s, const Sums<T, 1>& sums) {
                    ++s.preconditionings;
                    s.set_beta(sums.real(0));
                });
        }

        // x = x + alpha p,  p = M r + beta p
        run.sweep(s, read(x, p, r_or_z, maybe(m)), write(x, p), [=] SPMVGPU_DEVICE(const S& s, T x, T p, T z, T m) {
            return put(x + s.alpha * p, m * z + s.beta * p);
        });
    }

    template <class Solve>
    void run(Solve& solve) const {
        do {
            // p = M r,  rho = r.Mr
            const T* const r_or_z = z != nullptr ? solve.precondition(s, r, z) : r;
            solve.sweep(
                s, read(r, r_or_z, maybe(m)), write(p),
                [=] SPMVGPU_DEVICE(const S&, T r, T z, T m) {
                    const T mr = m * z;
                    return put(mr).sum(dot(r, mr));
                },
                [=] SPMVGPU_DEVICE(S & s, const Sums<T, 1>& sums) { s.set_beta(sums.real(0)); });
            solve.iterate(s, 1, *this);
        } while (solve.goes_on(s, r));
    }
};

}  // namespace spmvgpu
