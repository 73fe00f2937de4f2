// The generalised minimal residual method with restarts (Saad and Schultz 1986), preconditioned from the left, with
// SciPy's tolerances: an Arnoldi basis v_0, v_1, ... of the Krylov space of M A grows until the preconditioned
// residual, which rotations provide, has fallen below ptol; then x is corrected, and the true residual decides.
//
//     v_0 = M r / |M r|
//     for col = 0, 1, ..., restart - 1:
//         w = M A v_col
//         w = w - sum of h_k v_k, k <= col      orthogonalised, twice: as exact as one vector after the other is, in
//                                               four passes over the basis however many vectors it has, which on a GPU
//                                               are one kernel (solvers/engines/orthogonalise.cuh)
//         v_col+1 = w / |w|
//     x = x + sum of y_k v_k,  r = b - A x
//
// Flexible, it preconditions from the right (Saad 1993): v_0 = r / |r|, w = A z_col with z_col = M v_col, and x = x +
// sum of y_k z_k. It stores all z_k, so that M may be another map in each iteration, and its residual is the true one.
#pragma once

#include "solvers/engines/context.hpp"

namespace spmvgpu {

template <class T>
struct GmresScalars : Progress {
    using W = Wide<T>;
    static constexpr bool kRecordsMr = true;
    double ptol = 0, ptol_factor = 1, presid = 0;
    Factor<double> scale;  // 1 / |w|
    double left = 0;       // |w|
    std::int64_t cycles = 0;
    std::int32_t col = 0, breakdown = 0, legacy = 0, flexible = 0;
    // On the device: h and its correction, the columns of R, the rotations, and the right-hand side, which becomes y.
    W *h = nullptr, *again = nullptr, *R = nullptr, *sines = nullptr, *rhs = nullptr;
    double* cosines = nullptr;
    std::int64_t leading = 0;  // dimension of R

    template <class Visit>
    void visit_pointers(Visit&& visit) {
        Progress::visit_pointers(visit);
        visit(h), visit(again), visit(R), visit(sines), visit(rhs), visit(cosines);
    }

    constexpr void begin_cycle() {
        stopped = status != Status::kRunning;
        col = 0;
        breakdown = 0;
    }

    SPMVGPU_SCALAR void begin_basis(double squared) {
        preconditionings += flexible == 0;
        if (leaves_range(squared)) return;
        const double norm = root(squared);
        if (iterations == 0) record(norm);
        rhs[0] = norm;
        scale = norm > 0 ? 1 / norm : 0;
        if (!finite(norm)) {
            stop(Status::kNotFinite, norm);
            stopped = 1;
        }
    }

    // Measures the remainder of w once it is orthogonal, which may be negligible.
    SPMVGPU_SCALAR void measure(double left_squared) {
        left = root(left_squared);
        if (left <= eps * root(real_of(h[col + 1]))) {
            left = 0;
            breakdown = 1;
        }
        scale = left > 0 ? 1 / left : 0;
    }

    // The new column of the Hessenberg matrix, whose last entry is the norm of the remainder of w.
    SPMVGPU_SCALAR void rotate() {
        // The arrays do not overlap, which lets the loads of later rotations begin before earlier ones are stored.
        W* const __restrict__ column = R + col * leading;
        const W* const __restrict__ first = h;
        const W* const __restrict__ second = again;
        const W* const __restrict__ sine = sines;
        const double* const __restrict__ cosine = cosines;
        ++products, ++preconditionings;
        if (leaves_range(real_of(first[col + 1]))) return;
        const double h0 = root(real_of(first[col + 1]));
        W above = first[0] + second[0];
        for (int k = 0; k < col; ++k) {
            const W below = first[k + 1] + second[k + 1];
            column[k] = cosine[k] * above + sine[k] * below;
            above = cosine[k] * below - conjugate(sine[k]) * above;
        }
        const W f = above;
        const double size = size_of(f), length = root(size * size + left * left);
        const W phase = size > 0 ? f / size : W(1);
        cosines[col] = length > 0 ? size / length : 1;
        sines[col] = length > 0 ? phase * (left / length) : W(0);
        column[col] = phase * length;
        rhs[col + 1] = -(conjugate(sines[col]) * rhs[col]);
        rhs[col] = cosines[col] * rhs[col];
        presid = size_of(rhs[col + 1]);
        ++col;
        ++iterations;
        record(presid);
        if (!finite(presid) || !finite(h0)) stop(Status::kNotFinite, finite(h0) ? presid : h0);
        const bool is_last = legacy != 0 && iterations == maxiter;
        if (status != Status::kRunning || is_last || presid <= ptol || breakdown != 0) stopped = 1;
    }

    // y of R y = rhs, in place of rhs; columns of zeros are left out.
    SPMVGPU_SCALAR void end_basis() {
        if (status != Status::kRunning) return;
        stopped = 0;
        if (col > 0 && size_of(R[(col - 1) * leading + col - 1]) == 0) rhs[col - 1] = W(0);
        for (int k = col - 1; k >= 0; --k) {
            const W pivot = R[k * leading + k];
            if (size_of(rhs[k]) == 0) continue;
            rhs[k] = rhs[k] / pivot;
            for (int i = 0; i < k; ++i) rhs[i] = rhs[i] - rhs[k] * R[k * leading + i];
        }
    }

    SPMVGPU_SCALAR void end_cycle(double squared) {
        const double norm = root(squared);
        ++products;
        ++cycles;
        residual = norm;
        if (!finite(norm)) {
            stop(Status::kNotFinite, norm);
        } else if (norm <= goal) {
            stop(Status::kConverged, norm);
        } else if (breakdown != 0) {
            stop(Status::kSingular, norm);
        } else if ((legacy != 0 ? iterations : cycles) >= maxiter) {
            stop(Status::kExhausted, norm);
        }
        if (presid <= ptol) {
            ptol_factor = 0.25 * ptol_factor > eps ? 0.25 * ptol_factor : eps;
        } else {
            ptol_factor = 1.5 * ptol_factor < 1 ? 1.5 * ptol_factor : 1;
        }
        set_ptol(presid, goal / norm);
    }

    constexpr void set_ptol(double size, double ratio) { ptol = size * (ratio < ptol_factor ? ratio : ptol_factor); }
};

template <class T>
struct Gmres {
    static constexpr const char* kName = "gmres";
    using S = GmresScalars<T>;

    int restart;
    S* s;
    T *x, *r, *product;
    Basis<T> v;
    Basis<T> z{};  // M times vectors of v, if flexible
    S first;       // the initial scalars

    explicit Gmres(Work<T>& work)
        : restart(work.limits.restart),
          s(work.template scalars<S>(restart < 512 ? 1024 : 2 * restart)),  // a whole cycle may lie between two looks
          x(work.x()) {
        work.vectors(r, product);
        v = work.basis(restart + 1);
        if (work.limits.flexible && work.has_preconditioner()) z = work.basis(restart);
        const auto take = [&](std::size_t count) { return work.template take<Wide<T>>(count); };
        first.h = take(restart + 2), first.again = take(restart + 2), first.R = take((restart + 1) * restart);
        first.sines = take(restart), first.rhs = take(restart + 1);
        first.cosines = work.template take<double>(restart);
        first.legacy = work.limits.legacy, first.flexible = work.limits.flexible, first.leading = restart + 1;
    }

    S initial() const { return first; }

    template <class Solve>
    void cycle(Solve& solve) const {
        // v_0 = M r / |M r|, or r / |r|
        const bool is_flexible = solve.limits.flexible;
        solve.queue.compute(s, [=] SPMVGPU_DEVICE(S & s) { s.begin_cycle(); });
        const T* const mr = is_flexible ? r : solve.precondition(s, r, v[0]);
        solve.reduce(
            s, read(mr), [=] SPMVGPU_DEVICE(const S&, T mr) { return sum<T>(square(mr)); },
            [=] SPMVGPU_DEVICE(S & s, const Sums<T, 1>& sums) { s.begin_basis(sums.real(0)); });
        solve.sweep(s, read(mr), write(v[0]), [=] SPMVGPU_DEVICE(const S& s, T mr) { return put(s.scale * mr); });

        for (int col = 0; col < restart && !solve.queue.knows_idle(s); ++col) {
            // w = M A v_col, or A M v_col
            T* const w = v[col + 1];
            if (is_flexible) {
                solve.multiply(z.data != nullptr ? solve.precondition(s, v[col], z[col]) : v[col], w);
            } else if (solve.has_preconditioner()) {
                solve.multiply(v[col], product);
                solve.precondition(s, product, w);
            } else {
                solve.multiply(v[col], w);
            }

            // w = w - sum of h_k v_k, twice;  v_col+1 = w / |w|
            solve.orthogonalise(s, v, col + 1, first.h, first.again);
            if (solve.looks_often() && solve.is_idle(s)) break;
        }

        // x = x + sum of y_k v_k, or of y_k z_k,  r = b - A x
        solve.queue.compute(s, [=] SPMVGPU_DEVICE(S & s) { s.end_basis(); });
        const auto columns = [=] SPMVGPU_DEVICE(const S& s) { return int(s.col); };
        const Basis<T>& directions = z.data != nullptr ? z : v;
        solve.queue.combine(s, solve.n, directions, columns, first.rhs, 1, x, NoWork{});
        solve.multiply(x, product);
        solve.sweep(
            s, read(solve.b(), product), write(r),
            [=] SPMVGPU_DEVICE(const S&, T b, T ax) {
                const T r = b - ax;
                return put(r).sum(square(r));
            },
            [=] SPMVGPU_DEVICE(S & s, const Sums<T, 1>& sums) { s.end_cycle(sums.real(0)); });
    }

    template <class Solve>
    void run(Solve& solve) const {
        const std::size_t bytes = (restart + 1) * v.stride * sizeof(T);
        solve.queue.zero(v.data, bytes);  // products read memory that no iteration has written
        if (z.data != nullptr) solve.queue.zero(z.data, restart * z.stride * sizeof(T));
        const T* const mb = solve.limits.flexible ? solve.b() : solve.precondition(s, solve.b(), product);
        solve.reduce(
            s, read(mb), [=] SPMVGPU_DEVICE(const S&, T mb) { return sum<T>(square(mb)); },
            [=] SPMVGPU_DEVICE(S & s, const Sums<T, 1>& sums) { s.set_ptol(root(sums.real(0)), s.goal / s.norm_b); });
        do solve.repeat(s, 1, restart, [&](std::int64_t) { cycle(solve); });
        while (solve.goes_on(s, r));
    }
};

}  // namespace spmvgpu
