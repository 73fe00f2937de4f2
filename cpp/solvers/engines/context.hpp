// The common parts of all solvers: products, the first residual and stopping, so that a method's own file has its
// formulas and nothing else.
#pragma once

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>
#include <vector>

#include "solvers/engines/engine.hpp"
#include "solvers/engines/pace.hpp"
#include "solvers/engines/progress.hpp"
#include "solvers/engines/run.hpp"
#include "solvers/engines/scales.hpp"
#include "solvers/engines/truth.hpp"
#include "solvers/engines/work.hpp"

namespace spmvgpu {

template <class T, class Queue>
class Context : public RunSteps<Context<T, Queue>, T> {
    static_assert(Engine<Queue>);

public:
    static constexpr bool kIsInPieces = Queue::kIsInPieces;

    Context(Queue& queue, Work<T>& work, const LookAt& look)
        : queue(queue),
          work(work),
          limits(work.limits),
          n(work.n()),
          x(work.x()),
          look_(look),
          true_residuals_(queue.columns(), kInfinity),
          residuals_(queue.columns()) {
        if (limits.scaled) scale();
    }

    Queue& queue;
    const Work<T>& work;
    const Limits& limits;
    const index_t n;
    T* const x;

    const T* b() const { return work.b(); }
    int columns() const { return queue.columns(); }  // solved at once, each with its own scalars
    double shift() const { return std::ldexp(limits.shift, scales_.A); }
    bool has_preconditioner() const { return work.has_preconditioner(); }
    // True if the host looks at every iteration. A preconditioner that is no diagonal takes its time even where sweeps
    // are idle, as they are after the end.
    bool looks_often() const { return limits.look_each || (has_preconditioner() && work.diagonal() == nullptr); }

    void multiply(const T* from, T* to) {
        report.products += !iterates_;
        timed(report.product_seconds, [&] { work.system.A->apply(from, to, queue.stream()); });
        if (scales_.A != 0) scale_by_power(queue, n, to, to, scales_.A);
    }

    template <class S, class Then, class Beside = NoWork>
    void multiply_and_dot(S* s, const T* from, T* to, const T* w, Wide<T>* parts, const Then& then,
                          const Beside& beside = {}) {
        if constexpr (Queue::kIsInPieces && Queue::kIsGpu) {
            if (parts != nullptr && !limits.scaled) {
                const LinearMap<T>& A = *work.system.A;
                timed(report.product_seconds, [&] { A.apply_and_dot(from, to, w, parts, queue.stream()); });
                beside();
                return queue.add_dots(
                    s, parts, from, to, w, [&](int piece) { return A.dots_left(piece); }, then);
            }
        }
        RunSteps<Context, T>::multiply_and_dot(s, from, to, w, parts, then, beside);
    }

    template <class S>
    const T* precondition(S* s, const T* from, T* to) {
        if (!has_preconditioner()) return from;
        if (const T* const m = work.diagonal()) {
            sweep(s, read(from, maybe(m)), write(to), TimesDiagonal<T>{});
        } else {
            report.preconditionings += !iterates_;
            timed(report.precondition_seconds, [&] { work.system.M->apply(from, to, queue.stream()); });
            if (scales_.M != 0) scale_by_power(queue, n, to, to, scales_.M);
        }
        return to;
    }

    // w = v_count less its projections on the vectors of the basis before it, twice, because the remainders of the
    // first time are small enough only after the second; then w / |w|. h gets the projections, followed by |w|^2 of the
    // original w, and `again` the corrections of the second time. The scalars measure() the remainder of w, which sets
    // its scale, and rotate().
    template <class S>
    void orthogonalise(S* s, const Basis<T>& v, int count, Wide<T>* h, Wide<T>* again) {
        if (Queue::Shortcuts::orthogonalise(*this, s, v, count, h, again)) return;
        T* const w = v[count];
        queue.dots(s, n, v, count + 1, w, h, [=] SPMVGPU_DEVICE(S&) {});
        queue.combine(
            s, n, v, [=] SPMVGPU_DEVICE(const S&) { return count; }, h, -1, w, NoWork{});
        queue.dots(s, n, v, count, w, again, [=] SPMVGPU_DEVICE(S&) {});
        queue.combine(
            s, n, v, [=] SPMVGPU_DEVICE(const S&) { return count; }, again, -1, w,
            [=] SPMVGPU_DEVICE(S & s, const Sums<T, 1>& sums) {
                s.measure(sums.real(0));
                s.rotate();
            });
        sweep(s, read(w), write(w), [=] SPMVGPU_DEVICE(const S& s, T w) { return put(s.scale * w); });
    }

    template <class S, class R, class W, class Step, class Then = NoWork>
    void sweep(S* s, const R& reads, const W& writes, const Step& step, const Then& then = {}) {
        queue.sweep(s, n, reads, writes, step, then);
    }
    template <class S, class R, class W, class Step, class Work>
    void sweep(S* s, const R& reads, const W& writes, const Step& step, const Postponed<Work>& then) {
        if constexpr (Queue::kIsInPieces) {
            // A callback sees x and its residual, which must be known by then.
            if (!limits.look_each) return queue.sweep(s, n, reads, writes, step, then);
        }
        queue.sweep(s, n, reads, writes, step, then.work);
    }
    template <class S, class R, class W, class Step, class Before, class Work>
    void sweep(S* s, const R& reads, const W& writes, const Step& step, const AfterPostponed<Before, Work>& then) {
        if constexpr (Queue::kIsInPieces) {
            queue.sweep(s, n, reads, writes, step, then);
        } else {
            queue.sweep(s, n, reads, writes, step, then.work);
        }
    }

    // x = the guess, r = b - A x, with the norms of b and r, which may end the solve. Returns false if it is over.
    template <class S>
    bool start(S* s, S initial, T* r) {
        initial.maxiter = limits.maxiter;
        initial.rtol = limits.rtol;
        initial.atol = std::ldexp(limits.atol, scales_.b);
        initial.eps = epsilon<T>();
        initial.shift = shift();
        initial.has_m = has_preconditioner();
        if (!limits.scaled || columns() > 1) {
            constexpr int kExponent = sizeof(Real<T>) == sizeof(float) ? 100 : 512;
            initial.lowest = std::ldexp(1.0, -kExponent);
            initial.highest = std::ldexp(1.0, kExponent);
        }
        initial.history = work.history;
        initial.history_size = work.history_size;
        queue.put_scalars(s, initial);
        if (limits.scaled && columns() > 1) choose_columns(s);
        if (work.system.guess != nullptr || limits.guess_is_mb) {
            const T* const guess = limits.guess_is_mb ? precondition(s, b(), r) : work.system.guess;
            scale_by_power(queue, n, guess, x, limits.guess_is_mb ? -scales_.A - scales_.M : scales_.x());
            const Factor<double> shift = this->shift();
            multiply(x, r);
            sweep(
                s, read(b(), r, x), write(r),
                [=] SPMVGPU_DEVICE(const S&, T b, T ax, T x) {
                    const T r = b - (ax - shift * x);
                    return put(r).sum(square(b), square(r));
                },
                [=] SPMVGPU_DEVICE(S & s, const Sums<T, 2>& sums) { begin(s, sums.real(0), sums.real(1)); });
        } else {
            sweep(
                s, read(b()), write(x, r), [=] SPMVGPU_DEVICE(const S&, T b) { return put(T(0), b).sum(square(b)); },
                [=] SPMVGPU_DEVICE(S & s, const Sums<T, 1>& sums) { begin(s, sums.real(0), sums.real(0)); });
        }
        const std::vector<S> now = queue.read_columns(s);
        const auto has_zero = [](const S& of) { return of.status == Status::kConverged && of.norm_b == 0; };
        if (std::any_of(now.begin(), now.end(), has_zero)) {
            sweep(s, read(x), write(x), [=] SPMVGPU_DEVICE(const S& s, T x) { return put(s.norm_b == 0 ? T(0) : x); });
        }
        return any_runs(now);
    }

    // Iterates until the scalars end the solve: iteration(run, s, k) does the k-th iteration, where `run` is this
    // context or a run in a kernel. After `period` iterations the vectors are in their first roles again.
    template <class S, class Iteration>
    void iterate(S* s, int period, const Iteration& iteration) {
        static_assert(SolverRun<Context, T, S>);
        iterates_ = true;
        if (!Queue::Shortcuts::iterate(*this, s, period, iteration)) {
            repeat(s, period, 1, [&](std::int64_t k) { iteration(*this, s, k); });
        }
        iterates_ = false;
    }

    // Does iterations that no single kernel can: iterate(k) queues the k-th one.
    template <class S, class Iterate>
    void repeat(S* s, int period, int iterations_each, Iterate&& iterate) {
        iterates_ = true;
        Pace pace;
        const bool can_be_recorded =
            work.system.A->can_be_recorded() && (!has_preconditioner() || work.system.M->can_be_recorded());
        // Ranks wait for each other, so none may queue iterations beyond the end. A Python function must not be called
        // beyond it either, with meaningless vectors.
        pace.each = limits.look_each || limits.look_restarts || work.system.ranks != nullptr || !can_be_recorded ||
                    (looks_often() && iterations_each > 1);  // within those
        pace.period = period;
        pace.first = looks_often() ? 1 : std::max(1, pace.first / iterations_each);
        pace.direct = std::max(4, pace.direct / iterations_each);
        pace.every = (limits.look_every + iterations_each - 1) / iterations_each;
        pace.most = std::max(period, static_cast<int>(work.history_size - 1) / iterations_each / period * period);
        pace.recordable = can_be_recorded;
        queue.repeat(pace, iterate, [&] { return !is_over(s); });
        iterates_ = false;
    }

    // Iterations that may pass between two looks at a solve that stops by itself.
    std::int64_t iterations_per_look() const {
        const std::int64_t recorded = work.history_size - 1;
        if (limits.look_each) return 1;
        return limits.look_every > 0 ? std::min<std::int64_t>(limits.look_every, recorded) : recorded;
    }

    template <class S>
    bool is_over(S* s) {
        return !any_runs(look(s));
    }
    // Returns true if all sweeps are idle, which may be before the solve is over.
    template <class S>
    bool is_idle(S* s) {
        const std::vector<S> now = look(s);
        return std::all_of(now.begin(), now.end(), [](const S& of) { return of.stopped != 0; });
    }

    // r = b - A x, and its meaning for iterations that claim to have converged, or broke down. For several columns, the
    // last meaning that holds for any.
    template <class S>
    Truth verify(S* s, T* r) {
        std::vector<S> now = queue.read_columns(s);
        keep_residuals(now);
        if (limits.scaled) round_x();
        for (S& of : now) of.stopped = of.status == Status::kOutOfRange;
        if (std::all_of(now.begin(), now.end(), [](const S& of) { return of.stopped != 0; })) return Truth::kOver;
        queue.put_columns(s, now);
        const Factor<double> shift = this->shift();
        multiply(x, r);
        sweep(
            s, read(b(), x, r), write(r),
            [=] SPMVGPU_DEVICE(const S&, T b, T x, T ax) {
                const T r = b - (ax - shift * x);
                return put(r).sum(square(r));
            },
            [=] SPMVGPU_DEVICE(S & s, const Sums<T, 1>& sums) { s.residual = root(sums.real(0)); });
        const std::vector<S> measured = queue.read_columns(s);
        Truth truth = Truth::kOver;
        for (std::size_t j = 0; j < now.size(); ++j) {
            if (now[j].stopped == 0) truth = std::max(truth, judge(now[j], measured[j].residual, true_residuals_[j]));
        }
        queue.put_columns(s, now);
        return truth;
    }

    double true_residual() const { return true_residuals_[0]; }  // from the last verify()

    // Lets iterations go on, towards a residual that makes the true one small enough; false if maxiter is reached.
    template <class S>
    bool revive(S* s) {
        S now = queue.read_scalars(s);
        const bool goes_on = spmvgpu::revive(now);
        queue.put_scalars(s, now);
        return goes_on;
    }

    // For methods that restart from r whenever the solve is not over.
    template <class S>
    bool goes_on(S* s, T* r) {
        return verify(s, r) == Truth::kBetter;
    }

    // The reports of a solve that verify() or start() has ended.
    template <class S>
    Reports finish(S* s) {
        const std::vector<S> now = queue.read_columns(s);
        keep_residuals(now);
        const auto is_out = [](const S& of) { return of.status == Status::kOutOfRange; };
        if (limits.scaled && !std::all_of(now.begin(), now.end(), is_out)) {
            scale_by_power(queue, n, x, x, -scales_.x());
            queue.read_scalars(s);  // waits for it
        }
        Reports reports;
        for (std::size_t j = 0; j < now.size(); ++j) reports.push_back(report_of(now[j], j));
        return reports;
    }

    Report report;  // the part that is equal for all columns

    static constexpr double kInfinity = std::numeric_limits<double>::infinity();

private:
    template <class S>
    static bool any_runs(const std::vector<S>& now) {
        return std::any_of(now.begin(), now.end(), [](const S& of) { return of.status == Status::kRunning; });
    }

    template <class S>
    std::vector<S> look(S* s) {
        std::vector<S> now = queue.read_columns(s);
        if (limits.look_each && most_iterations(now) <= reported_) return now;
        if (report_progress(s, now)) return now;
        for (S& of : now) {
            if (of.status == Status::kRunning) of.status = Status::kExhausted;
        }
        queue.put_columns(s, now);
        return now;
    }

    template <class S>
    static std::int64_t most_iterations(const std::vector<S>& now) {
        std::int64_t most = 0;
        for (const S& of : now) most = std::max(most, of.iterations);
        return most;
    }

    template <class S>
    Report report_of(const S& now, std::size_t column) {
        Report of = report;
        of.status = now.status;
        of.iterations = now.iterations;
        of.offending_value = now.offending_value;
        of.products += now.products;
        of.preconditionings = work.has_operator() ? of.preconditionings + now.preconditionings : 0;
        of.residual = std::ldexp(now.residual, -scales_.b);
        const double known = true_residuals_[column];
        of.true_residual = finite(known) ? std::ldexp(known, -scales_.b) : of.residual;
        of.goal = std::ldexp(now.tolerance, -scales_.b);
        of.norm_b = std::ldexp(now.norm_b, -scales_.b);
        of.residuals = std::move(residuals_[column]);
        return of;
    }

    // A batch is scaled as one of its systems is, and others may be far from it: their numbers are watched, except
    // where b is zero. What is solved already stops here.
    template <class S>
    void choose_columns(S* s) {
        std::vector<S> each = queue.read_columns(s);
        for (int j = 0; j < columns(); ++j) {
            if (limits.is_solved[j]) {
                each[j].status = Status::kOutOfRange;
                each[j].stopped = 1;
            } else if (j == limits.scaled_as || is_zero_[j]) {
                each[j].lowest = each[j].highest = 0;  // not checked
            }
        }
        queue.put_columns(s, each);
    }

    // Measures the system and replaces it by a scaled one, whose numbers are near 1.
    void scale() {
        const auto& [magnitude, scaled_b, scaled_diagonal, az] = work.scaled;
        const auto exponent = [this, memory = magnitude](const T* v) {
            return exponent_of(queue, memory, n, v, limits.scaled_as);
        };
        // The exponent that makes one vector as large as another; 0 where either has no size.
        const auto towards = [](std::optional<int> wanted, std::optional<int> is) {
            return wanted && is ? *wanted - *is : 0;
        };
        const std::vector<Magnitude> sizes = magnitudes_of(queue, magnitude, n, work.system.b);
        for (const Magnitude& size : sizes) is_zero_.push_back(size.is_zero());
        scales_.b = towards(0, sizes[limits.scaled_as].exponent());
        scale_by_power(queue, n, work.system.b, scaled_b, scales_.b);
        const std::optional<int> size = exponent(scaled_b);
        if (scaled_diagonal != nullptr) scale_by_power(queue, n, work.system.diagonal(), scaled_diagonal, 0);
        const T* const mb = precondition(magnitude, scaled_b, x);
        scales_.M = towards(size, exponent(mb));
        if (scaled_diagonal != nullptr) scale_by_power(queue, n, scaled_diagonal, scaled_diagonal, scales_.M);
        T* const z = x;
        scale_by_power(queue, n, mb, z, scales_.M);
        multiply(z, az);
        scales_.A = towards(exponent(z), exponent(az));
        // A product is scaled after it is computed, so the product and its vector should be equally far from the
        // limits.
        const int of_M = work.has_operator() ? scales_.M : 0,
                  middle = (std::max({0, scales_.A, of_M}) + std::min({0, scales_.A, of_M})) / 2;
        constexpr int kMost = sizeof(Real<T>) == sizeof(float) ? 40 : 200;
        const int raised = std::clamp(middle, -kMost, kMost);
        scale_by_power(queue, n, scaled_b, scaled_b, raised);
        scales_.b += raised;
    }

    // Rounds x to the type and scale of the caller's result and back.
    void round_x() {
        scale_by_power(queue, n, x, x, -scales_.x());
        scale_by_power(queue, n, x, x, scales_.x());
    }

    template <class Call>
    void timed(double& seconds, Call&& call) {
        if constexpr (Queue::kIsGpu) {
            call();  // only queues work
        } else {
            const auto start = std::chrono::steady_clock::now();
            call();
            seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        }
    }

    template <class S>
    bool report_progress(S* s, const std::vector<S>& now) {
        const auto begins_anew = [](const S& of) { return of.status == Status::kOutOfRange; };
        if (std::all_of(now.begin(), now.end(), begins_anew)) return true;
        keep_residuals(now);
        reported_ = most_iterations(now);
        if (!look_) return true;
        const bool shows_x = limits.scaled && (limits.look_each || limits.look_restarts);
        if (shows_x) {
            scale_by_power(queue, n, x, x, -scales_.x());
            queue.read_scalars(s);  // waits for it
        }
        std::vector<Look> looks;
        for (const S& of : now) {
            const double residual = std::ldexp(of.residual, exponent_of_residuals<S>());
            looks.push_back({of.iterations, residual, std::ldexp(of.norm_b, -scales_.b)});
        }
        const bool goes_on = look_(looks);
        if (shows_x) scale_by_power(queue, n, x, x, scales_.x());
        return goes_on;
    }

    template <class S>
    int exponent_of_residuals() const {
        return S::kRecordsMr && !limits.flexible ? -scales_.b - scales_.M : -scales_.b;
    }

    // Fetches the residuals since the last time.
    template <class S>
    void keep_residuals(const std::vector<S>& now) {
        for (std::size_t j = 0; j < now.size() && limits.record; ++j) {
            if (now[j].status != Status::kOutOfRange) keep_residuals(now[j], residuals_[j]);
        }
    }
    template <class S>
    void keep_residuals(const S& now, std::vector<double>& kept) {
        std::vector<double> ring(std::min(now.iterations + 1, work.history_size));
        queue.download(ring.data(), now.history, ring.size() * sizeof(double));
        for (auto k = static_cast<std::int64_t>(kept.size()); k <= now.iterations; ++k) {
            kept.push_back(std::ldexp(ring[k % work.history_size], exponent_of_residuals<S>()));
        }
    }

    const LookAt& look_;
    std::int64_t reported_ = 0;
    Scales scales_;
    std::vector<char> is_zero_;  // b of each column, of a scaled system
    bool iterates_ = false;      // during iterations, where products may be recorded or idle, and scalars count them
    // for each column
    std::vector<double> true_residuals_;
    std::vector<std::vector<double>> residuals_;
};

}  // namespace spmvgpu
