// What all solvers share: their vectors, products, first residual and stopping, so that a solver's own file has its
// formulas and nothing else.
#pragma once

#include <algorithm>
#include <chrono>
#include <limits>

#include "solvers/solve.hpp"
#include "vector/pace.hpp"
#include "vector/sweep.hpp"

namespace spmvgpu {

// What the scalars of every solver begin with. They live where the vectors do.
struct Progress {
    static constexpr bool kOwnTest = false;  // whether the solver does not stop for the norm of the residual

    Status status = Status::kRunning;
    std::int32_t stopped = 0;  // sweeps are idle
    std::int64_t iterations = 0, maxiter = 0;
    double rtol = 0, atol = 0;
    double norm_b = 0, goal = 0, residual = 0, offending_value = 0;
    double* history = nullptr;  // residuals, the k-th at k % history_size
    std::int64_t history_size = 0;

    // Shows all pointers to memory of the solve, which may lie elsewhere for each of several devices.
    template <class Visit>
    void visit_pointers(Visit&& visit) {
        visit(history);
    }

    constexpr void stop(Status why, double value) {
        status = why;
        offending_value = value;
    }

    constexpr void record(double norm) {
        residual = norm;
        history[iterations % history_size] = norm;
    }

    // Whether a residual of this norm ends the solve.
    constexpr void judge(double norm) {
        record(norm);
        if (!finite(norm)) {
            stop(Status::kNotFinite, norm);
        } else if (norm <= goal) {
            stop(Status::kConverged, norm);
        } else if (iterations >= maxiter) {
            stop(Status::kExhausted, norm);
        }
    }
};

// The norms of b and of the first residual, squared, and what they mean for the solve.
template <class S>
SPMVGPU_SCALAR void begin(S& s, double bb, double rr) {
    s.norm_b = root(bb);
    const double relative = s.rtol * s.norm_b;
    s.goal = S::kOwnTest ? 0 : relative > s.atol ? relative : s.atol;
    if (bb == 0) {
        s.record(0);
        s.stop(Status::kConverged, 0);  // with x = 0, whatever the guess
    } else {
        s.judge(root(rr));
    }
}

template <class T, class Queue>
class Context {
public:
    Context(Queue& queue, const System<T>& system, const Limits& limits, char* memory, std::size_t bytes,
            const std::function<void(const Look&)>& look)
        : queue(queue),
          n(system.n),
          x(system.x),
          b(system.b),
          limits(limits),
          system_(system),
          memory_(memory),
          end_(memory + bytes),
          look_(look) {}

    Queue& queue;
    const index_t n;
    T* const x;
    const T* const b;
    const Limits& limits;

    const System<T>& system() const { return system_; }

    // Memory for the solve, on its device.
    template <class U>
    U* take(std::size_t count) {
        char* const from = memory_;
        memory_ += aligned(count * sizeof(U));
        if (memory_ > end_) throw std::logic_error("a solver takes more memory than it said");
        return reinterpret_cast<U*>(from);
    }
    T* vector() { return take<T>(n); }
    static constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

    // The scalars of a solver, on the device.
    template <class S>
    S* scalars(S initial, int history_size = kHistory) {
        history_ = take<double>(history_size);
        initial.maxiter = limits.maxiter;
        initial.rtol = limits.rtol;
        initial.atol = limits.atol;
        initial.history = history_;
        initial.history_size = history_size_ = history_size;
        S* const s = take<S>(1);
        queue.put_scalars(s, initial);
        return s;
    }

    void multiply(const T* from, T* to) {
        ++report.products;
        timed(report.product_seconds, [&] { system_.A->apply(from, to, queue.stream()); });
    }

    // to = A from,  then(scalars, from.to)
    template <class S, class Then>
    void multiply_and_dot(S* s, const T* from, T* to, const Then& then) {
        multiply(from, to);
        queue.sweep(
            s, n, read(from, to), SPMVGPU_LAMBDA(const S&, T a, T b) { return sum<T>(dot(a, b)); }, then);
    }

    // The same by a product that leaves from.to at `dots`, in parts.
    void multiply_leaving_dots(const T* from, T* to, Wide<T>* dots) {
        ++report.products;
        system_.A->apply_and_dot(from, to, dots, queue.stream());
    }

    // M's diagonal, null if M is none; solvers that read it as ones then need no step for either case.
    const T* diagonal() const { return system_.M == nullptr ? nullptr : system_.M->diagonal(); }
    bool has_preconditioner() const { return system_.M != nullptr; }
    bool has_operator() const { return system_.M != nullptr && diagonal() == nullptr; }

    // M from, which is `from` itself where there is no preconditioner, and otherwise put into `to`.
    template <class S>
    const T* precondition(S* s, const T* from, T* to) {
        if (system_.M == nullptr) return from;
        if (const T* const m = diagonal()) {
            queue.sweep(
                s, n, read(from, m), write(to), SPMVGPU_LAMBDA(const S&, T r, T m) { return put(m * r); });
        } else {
            ++report.preconditionings;
            timed(report.precondition_seconds, [&] { system_.M->apply(from, to, queue.stream()); });
        }
        return to;
    }

    // w = v_count less its parts along the vectors of the basis before it, twice, for what is left the first time of a
    // part is too small to matter after the second; then w / |w|. h gets the parts, with |w|^2 of the w that was given
    // behind them, `again` what the second time adds. The scalars measure() what is left of w, which says its scale,
    // and rotate().
    template <class S>
    void orthogonalise(S* s, const Basis<T>& v, int count, Wide<T>* h, Wide<T>* again) {
        if constexpr (Queue::kMayCooperate) {
            if (orthogonalise_together(*this, s, v, count, h, again)) return;
        }
        T* const w = v[count];
        queue.dots(s, n, v, count + 1, w, h, SPMVGPU_LAMBDA(S&){});
        queue.combine(
            s, n, v, SPMVGPU_LAMBDA(const S&) { return count; }, h, -1, w, Nothing{});
        queue.dots(s, n, v, count, w, again, SPMVGPU_LAMBDA(S&){});
        queue.combine(
            s, n, v, SPMVGPU_LAMBDA(const S&) { return count; }, again, -1, w,
            SPMVGPU_LAMBDA(S & s, const Sums<T, 1>& sums) {
                s.measure(real_of(sums[0]));
                s.rotate();
            });
        queue.sweep(
            s, n, read(w), write(w), SPMVGPU_LAMBDA(const S& s, T w) { return put(Real<T>(s.scale) * w); });
    }

    template <class S>
    void copy(S* s, const T* from, T* to) {
        queue.sweep(
            s, n, read(from), write(to), SPMVGPU_LAMBDA(const S&, T value) { return put(value); });
    }

    template <class S>
    void clear(S* s, T* to) {
        queue.sweep(
            s, n, read(b), write(to), SPMVGPU_LAMBDA(const S&, T) { return put(T(0)); });
    }

    // x = the guess, r = b - A x, with the norms of b and r; and what they mean for the solve. False if it is over.
    template <class S>
    bool start(S* s, T* r, double shift = 0) {
        if (system_.guess != nullptr || limits.guess_is_mb) {
            const T* const guess = limits.guess_is_mb ? precondition(s, b, r) : system_.guess;
            copy(s, guess, x);
            multiply(x, r);
            queue.sweep(
                s, n, read(b, r, x), write(r),
                SPMVGPU_LAMBDA(const S&, T b, T ax, T x) {
                    const T r = b - (ax - Real<T>(shift) * x);
                    return put(r).sum(square(b), square(r));
                },
                SPMVGPU_LAMBDA(S & s, const Sums<T, 2>& sums) { begin(s, real_of(sums[0]), real_of(sums[1])); });
        } else {
            queue.sweep(
                s, n, read(b), write(x, r), SPMVGPU_LAMBDA(const S&, T b) { return put(T(0), b).sum(square(b)); },
                SPMVGPU_LAMBDA(S & s, const Sums<T, 1>& sums) { begin(s, real_of(sums[0]), real_of(sums[0])); });
        }
        const S now = queue.read_scalars(s);
        if (now.norm_b == 0) clear(s, x);
        return now.status == Status::kRunning;
    }

    // A sweep over whole vectors.
    template <class S, class... Given>
    void sweep(S* s, const Given&... given) {
        queue.sweep(s, n, given...);
    }

    // Iterates until the scalars say that it is over: iteration(run, s, k) does the k-th iteration, where `run` is this
    // context or, in a kernel that does many of them or a part of one, what stands for it there (see
    // solvers/resident.hpp and solvers/chained.cuh). After `period` iterations the vectors play the same parts again.
    template <class S, class Iteration>
    void iterate(S* s, int period, const Iteration& iteration) {
        if constexpr (Queue::kMayCooperate) {
            if (iterate_resident(*this, s, iteration) || iterate_chained(*this, s, period, iteration)) return;
        }
        repeat(s, period, 1, [&](std::int64_t k) { iteration(*this, s, k); });
    }

    // The same for iterations that are more than that: iterate(k) queues the k-th one.
    template <class S, class Iterate>
    void repeat(S* s, int period, int iterations_each, Iterate&& iterate) {
        Pace pace;
        // Ranks do the same work all at once, so none of them may have some queued beyond the end.
        pace.each = limits.look_each || limits.look_restarts || system_.ranks != nullptr;
        pace.period = period;
        pace.first = std::max(1, pace.first / iterations_each);
        pace.every = (limits.look_every + iterations_each - 1) / iterations_each;
        pace.most = std::max(1, static_cast<int>(history_size_ - 1) / iterations_each);
        pace.recordable =
            limits.recorded && system_.A->can_be_recorded() && (system_.M == nullptr || system_.M->can_be_recorded());
        queue.repeat(pace, iterate, [&] { return !look(s); });
    }

    // Iterations that may pass between two looks at the solve, of one that stops by itself.
    std::int64_t iterations_per_look() const {
        const std::int64_t recorded = history_size_ - 1;
        if (limits.look_each) return 1;
        return limits.look_every > 0 ? std::min<std::int64_t>(limits.look_every, recorded) : recorded;
    }

    // Looks at the solve; true if it is over.
    template <class S>
    bool look(S* s) {
        const S now = queue.read_scalars(s);
        if (!limits.look_each || now.iterations > told_) tell(now);
        return now.status != Status::kRunning;
    }

    // The same in the middle of an iteration; true if the rest of it is idle.
    template <class S>
    bool look_within(S* s) {
        const S now = queue.read_scalars(s);
        if (now.iterations > told_) tell(now);
        return now.stopped != 0;
    }

    // The true residual of what was found, into the report.
    template <class S>
    void finish(S* s, T* r, double shift = 0) {
        const S now = queue.read_scalars(s);
        keep_residuals(now);
        S again = now;
        again.stopped = 0;
        queue.put_scalars(s, again);
        multiply(x, r);
        queue.sweep(
            s, n, read(b, x, r),
            SPMVGPU_LAMBDA(const S&, T b, T x, T ax) { return sum<T>(square(T(b - (ax - Real<T>(shift) * x)))); },
            SPMVGPU_LAMBDA(S & s, const Sums<T, 1>& sums) { s.residual = root(real_of(sums[0])); });
        report.true_residual = queue.read_scalars(s).residual;
        report.status = now.status;
        report.iterations = now.iterations;
        report.offending_value = now.offending_value;
        report.residual = now.residual;
        report.goal = now.goal;
        report.norm_b = now.norm_b;
    }

    Report report;

    static constexpr int kHistory = 1024;

private:
    template <class Call>
    void timed(double& seconds, Call&& call) {
        if constexpr (Queue::kIsGpu) {
            call();  // which only queues
        } else {
            const auto start = std::chrono::steady_clock::now();
            call();
            seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        }
    }

    void tell(const Progress& now) {
        keep_residuals(now);
        told_ = now.iterations;
        if (look_) look_({now.iterations, now.residual, now.norm_b});
    }

    // Fetches the residuals since the last time.
    void keep_residuals(const Progress& now) {
        if (!limits.record) return;
        std::vector<double> ring(std::min(now.iterations + 1, history_size_));
        queue.download(ring.data(), history_, ring.size() * sizeof(double));
        for (auto k = static_cast<std::int64_t>(report.residuals.size()); k <= now.iterations; ++k) {
            report.residuals.push_back(ring[k % history_size_]);
        }
    }

    const System<T>& system_;
    char* memory_;
    char* const end_;
    const std::function<void(const Look&)>& look_;
    double* history_ = nullptr;
    std::int64_t history_size_ = 0;
    std::int64_t told_ = 0;
};

}  // namespace spmvgpu
