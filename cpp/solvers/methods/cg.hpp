// Conjugate gradients (Hestenes and Stiefel 1952), preconditioned (Saad, Iterative Methods for Sparse Linear Systems,
// algorithm 9.1), where M is an operator:
//
//     r = b - A x,  p = M r,  rho = r.Mr
//     until |r| <= max(rtol |b|, atol):
//         q = A p
//         alpha = rho / p.q
//         r = r - alpha q,  beta = r.Mr / rho,  rho = r.Mr
//         x = x + alpha p,  p = M r + beta p
//
// If M is a diagonal or none, beta is known before the new r is: r.Mr will be alpha^2 q.Mq - rho (Meurant 1987). One
// pass then does everything after a product, and the true r.Mr is summed on the way, for the next alpha (Chen and
// Carson, Predict-and-recompute conjugate gradient variants, 2020):
//
//         q = A p
//         alpha = rho / p.q,  beta = (alpha^2 q.Mq - rho) / rho
//         r = r - alpha q,  x = x + alpha p,  p = M r + beta p,  rho = r.Mr
//
// If M is another map in each iteration, beta is -alpha q.Mr / rho with the new r, which is the formula of Polak and
// Ribiere (Notay, Flexible conjugate gradients, 2000). With one M it equals r.Mr / rho but for rounding errors.
//
// An iteration has 7 passes over vectors after a product that leaves both inner products, 9 after others, one more with
// a diagonal, and two sums to wait for. Vectors in pieces wait once: the sums of a pass are added up with the next p.q.
// Meanwhile a half of x, each in turn, takes the steps of the two iterations before, which are as many passes:
//
//         q = A p_k,  x = x + alpha_(k-2) p_(k-2) + alpha_(k-1) p_(k-1) in a half,  alpha_k = rho / p_k.q,  ...
#pragma once

#include "solvers/engines/context.hpp"

namespace spmvgpu {

// The steps along p that x has yet to take, if it takes them later: one half in even iterations, the other in odd ones.
struct LateSteps {
    // The scalars of the sweep of a half, with the steps of two iterations, the earlier one first; zero: none.
    struct Half {
        Factor<double> alphas[2];
        std::int32_t stopped = 0;  // it has taken them
    };

    Half halves[2];
    Factor<double> last;
    std::int64_t count = 0;

    constexpr void begin() {
        *this = {};
        for (Half& half : halves) half.stopped = 1;
    }
    constexpr void add(double alpha) {
        ++count;
        halves[count % 2] = {{last, alpha}};
        last = alpha;
    }
};

struct CgScalars : Progress {
    Factor<double> alpha, beta;
    double rho = 0;
    LateSteps* late = nullptr;  // null: x takes its steps at once

    template <class Visit>
    void visit_pointers(Visit&& visit) {
        Progress::visit_pointers(visit);
        if (late != nullptr) visit(late);
    }

    constexpr void set_alpha(double pq) {
        if (status != Status::kRunning) {
            stopped = 1;  // the iteration that ended the solve has updated x by now
            return;
        }
        ++products;
        alpha = rho / pq;
        if (leaves_range(pq) || leaves_range(alpha)) return;
        if (finite(pq) && finite(alpha) && pq > 0) {
            if (late != nullptr) late->add(alpha);
            return;
        }
        stop(!finite(pq) ? Status::kNotFinite : nothing_is_left() ? Status::kStagnated : Status::kIndefinite, pq);
        stopped = 1;
    }

    // Rounding may make the remainder of a large r negative.
    constexpr void predict_beta(double q_mq, double size_of_q) {
        if (leaves_range(size_of_q)) return;
        const double step = alpha, predicted = step * (step * q_mq) - rho;
        beta = predicted > 0 ? predicted / rho : 0;
    }

    constexpr void set_rho(double r_mr) {
        beta = r_mr / rho;
        take_rho(r_mr);
    }

    // For an M that is another map in each iteration: the part of M r along A p, which conjugates the next p to p.
    constexpr void set_rho(double r_mr, double q_mr) {
        beta = -(alpha * q_mr) / rho;
        take_rho(r_mr);
    }

    constexpr void take_rho(double r_mr) {
        rho = r_mr;
        if (leaves_range(rho)) return;
        if (status != Status::kRunning || (rho > 0 && finite(rho))) return;
        stop(nothing_is_left() ? Status::kStagnated : Status::kBadPreconditioner, rho);
    }

    // Returns true if r is so far below rounding errors that its squares, and products with it, may have no correct
    // digits.
    constexpr bool nothing_is_left() const { return residual <= eps * eps * norm_b; }
};

template <class T>
struct Cg {
    static constexpr const char* kName = "cg";
    using S = CgScalars;

    S* s;
    T *x, *r, *q;
    T* p[3];     // iteration k uses p[k % 3]; one vector three times, unless x takes its steps later
    T* z;        // M r; null if M is a diagonal m or none, where M r is m r
    const T* m;  // the diagonal of M; null: ones
    bool is_flexible;
    Wide<T>* dots;  // p.q and q.Mq in parts, if the product leaves them
    LateSteps* late;

    explicit Cg(Work<T>& work)
        : s(work.template scalars<S>()),
          x(work.x()),
          z(nullptr),
          m(work.diagonal()),
          is_flexible(work.limits.flexible) {
        work.vectors(r, p[0], q);
        if (work.has_operator()) work.vectors(z);
        dots = work.parts_of_dots();
        p[1] = p[2] = p[0];
        // A callback sees x.
        const bool is_late = work.system.is_in_pieces() && !work.limits.look_each;
        late = is_late ? work.template take<LateSteps>(1) : nullptr;
        if (is_late) work.vectors(p[1], p[2]);
    }

    S initial() const {
        S s;
        s.late = late;
        return s;
    }

    SPMVGPU_IN_RUN(class R)
    void operator()(R& run, S* s, std::int64_t k) const {
        if constexpr (requires { requires R::kIsInPieces; }) {
            if (late != nullptr) return iterate<true>(run, s, k);
        }
        iterate<false>(run, s, 0);
    }

    // The half of x whose turn it is takes its steps, unless it has taken them.
    template <class Solve>
    void take_late_steps(Solve& solve, std::int64_t k) const {
        using Half = LateSteps::Half;
        const int half = static_cast<int>(k % 2);
        const auto step = [=] SPMVGPU_DEVICE(const Half& s, T x, T before, T last) {
            if (s.alphas[0] != 0) x = x + s.alphas[0] * before;
            if (s.alphas[1] != 0) x = x + s.alphas[1] * last;
            return put(x);
        };
        solve.queue.beside(late->halves + half, solve.n, half, read(x, p[(k + 1) % 3], p[(k + 2) % 3]), write(x), step,
                           [=] SPMVGPU_DEVICE(Half & s, const Sums<T, 0>&) { s.stopped = 1; });
    }

    // Both halves of x take the steps that are left.
    template <class Solve>
    void take_last_steps(Solve& solve) const {
        std::int64_t k = 0;
        solve.queue.download(&k, &late->count, sizeof(k));
        take_late_steps(solve, k);
        solve.queue.compute(s, [=] SPMVGPU_DEVICE(S & s) { s.late->add(0); });
        take_late_steps(solve, k + 1);
        solve.queue.rejoin();
    }

    SPMVGPU_IN_RUN(bool kIsLate, class R)
    void iterate(R& run, S* s, std::int64_t k) const {
        T *const p = this->p[k % 3], *const next = this->p[(k + 1) % 3];
        const bool stores_z = z != nullptr;
        const auto end_iteration = [=] SPMVGPU_DEVICE(S & s, const Sums<T, 2>& sums) {
            ++s.iterations;
            s.judge(root(sums.real(0)));
            s.set_rho(sums.real(1));
        };

        // q = A p,  alpha = rho / p.q,  beta = (alpha^2 q.Mq - rho) / rho
        const auto begin_iteration = [=] SPMVGPU_DEVICE(S & s, const Sums<T, 2>& sums) {
            s.set_alpha(sums.real(0));
            if (!stores_z) s.predict_beta(sums.real(1), root(sums.real(1)));
        };
        const AfterPostponed then{end_iteration, begin_iteration};
        if constexpr (kIsLate) {
            run.multiply_and_dot(s, p, q, m, dots, then, [&] { take_late_steps(run, k); });
            run.queue.rejoin();
        } else {
            run.multiply_and_dot(s, p, q, m, dots, then);
        }
        if (!stores_z) {
            // r = r - alpha q,  x = x + alpha p,  p = M r + beta p,  rho = r.Mr
            const auto step = [=] SPMVGPU_DEVICE(const S& s, T r, T q, T x, T p, T m = T(1)) {
                r = r - s.alpha * q;
                const T mr = m * r;
                return put(r, x + s.alpha * p, mr + s.beta * p).sum(square(r), dot(r, mr));
            };
            const auto step_without_x = [=] SPMVGPU_DEVICE(const S& s, T r, T q, T p, T m = T(1)) {
                r = r - s.alpha * q;
                const T mr = m * r;
                return put(r, mr + s.beta * p).sum(square(r), dot(r, mr));
            };
            // It ends the solve no later for that: alpha, which stops it, is the next to be known.
            const Postponed at_end{end_iteration};
            // Sweeps without m are separate, because an element of a missing vector takes a register all the same.
            if constexpr (kIsLate) {
                if (m == nullptr) return run.sweep(s, read(r, q, p), write(r, next), step_without_x, at_end);
                return run.sweep(s, read(r, q, p, maybe(m)), write(r, next), step_without_x, at_end);
            } else {
                if (m == nullptr) return run.sweep(s, read(r, q, x, p), write(r, x, p), step, at_end);
                return run.sweep(s, read(r, q, x, p, maybe(m)), write(r, x, p), step, at_end);
            }
        }

        // r = r - alpha q
        run.sweep(
            s, read(r, q), write(r),
            [=] SPMVGPU_DEVICE(const S& s, T r, T q) {
                r = r - s.alpha * q;
                return put(r).sum(square(r));
            },
            [=] SPMVGPU_DEVICE(S & s, const Sums<T, 1>& sums) {
                ++s.iterations;
                s.judge(root(sums.real(0)));
            });
        // beta = r.Mr / rho, or -alpha q.Mr / rho,  rho = r.Mr
        run.precondition(s, r, z);
        if (is_flexible) {
            run.reduce(
                s, read(r, q, z), [=] SPMVGPU_DEVICE(const S&, T r, T q, T z) { return sum<T>(dot(r, z), dot(q, z)); },
                [=] SPMVGPU_DEVICE(S & s, const Sums<T, 2>& sums) {
                    ++s.preconditionings;
                    s.set_rho(sums.real(0), sums.real(1));
                });
        } else {
            run.reduce(
                s, read(r, z), [=] SPMVGPU_DEVICE(const S&, T r, T z) { return sum<T>(dot(r, z)); },
                [=] SPMVGPU_DEVICE(S & s, const Sums<T, 1>& sums) {
                    ++s.preconditionings;
                    s.set_rho(sums.real(0));
                });
        }
        // x = x + alpha p,  p = M r + beta p
        const auto step = [=] SPMVGPU_DEVICE(const S& s, T x, T p, T z) {
            return put(x + s.alpha * p, z + s.beta * p);
        };
        const auto step_without_x = [=] SPMVGPU_DEVICE(const S& s, T p, T z) { return put(z + s.beta * p); };
        if constexpr (kIsLate) {
            run.sweep(s, read(p, z), write(next), step_without_x);
        } else {
            run.sweep(s, read(x, p, z), write(x, p), step);
        }
    }

    template <class Solve>
    void run(Solve& solve) const {
        do {
            // p = M r,  rho = r.Mr
            const T* const r_or_z = z != nullptr ? solve.precondition(s, r, z) : r;
            solve.sweep(
                s, read(r, r_or_z, maybe(m)), write(p[0]),
                [=] SPMVGPU_DEVICE(const S&, T r, T z, T m) {
                    const T mr = m * z;
                    return put(mr).sum(dot(r, mr));
                },
                [=] SPMVGPU_DEVICE(S & s, const Sums<T, 1>& sums) {
                    if (s.late != nullptr) s.late->begin();
                    s.set_rho(sums.real(0));
                });
            solve.iterate(s, late == nullptr ? 1 : 6, *this);  // the halves of x and three vectors p in turn
            if constexpr (Solve::kIsInPieces) {
                if (late != nullptr) take_last_steps(solve);
            }
        } while (solve.goes_on(s, r));
    }
};

}  // namespace spmvgpu
