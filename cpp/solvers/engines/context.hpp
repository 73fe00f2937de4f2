// What all solvers share: products, the first residual and stopping, so that a method's own file has its formulas and
// nothing else.
#pragma once

#include <algorithm>
#include <chrono>
#include <limits>

#include "solvers/engines/engine.hpp"
#include "solvers/engines/pace.hpp"
#include "solvers/engines/progress.hpp"
#include "solvers/engines/scales.hpp"
#include "solvers/engines/work.hpp"

namespace spmvgpu {

template <class T, class Queue>
class Context {
    static_assert(Engine<Queue>);

public:
    Context(Queue& queue, Work<T>& work, const LookAt& look)
        : queue(queue), work(work), limits(work.limits), n(work.n()), x(work.x()), look_(look) {
        if (limits.scaled) scale();
    }

    Queue& queue;
    const Work<T>& work;
    const Limits& limits;
    const index_t n;
    T* const x;

    const T* b() const { return work.b(); }
    double shift() const { return std::ldexp(limits.shift, scales_.A); }
    bool has_preconditioner() const { return work.has_preconditioner(); }

    void multiply(const T* from, T* to) {
        report.products += !iterates_;
        timed(report.product_seconds, [&] { work.system.A->apply(from, to, queue.stream()); });
        if (scales_.A != 0) scale_by_power(queue, n, to, to, scales_.A);
    }

    // to = A from,  then(scalars, from.to). `parts` are Work::parts_of_dot(), for runs that have products leave them.
    template <class S, class Then>
    void multiply_and_dot(S* s, const T* from, T* to, Wide<T>* /*parts*/, const Then& then) {
        multiply(from, to);
        reduce(
            s, read(from, to), [=] SPMVGPU_DEVICE(const S&, T a, T b) { return sum<T>(dot(a, b)); }, then);
    }

    // M from, which is `from` itself where there is no preconditioner, and otherwise put into `to`.
    template <class S>
    const T* precondition(S* s, const T* from, T* to) {
        if (!has_preconditioner()) return from;
        if (const T* const m = work.diagonal()) {
            sweep(s, read(from, m), write(to), [=] SPMVGPU_DEVICE(const S&, T r, T m) { return put(m * r); });
        } else {
            report.preconditionings += !iterates_;
            timed(report.precondition_seconds, [&] { work.system.M->apply(from, to, queue.stream()); });
            if (scales_.M != 0) scale_by_power(queue, n, to, to, scales_.M);
        }
        return to;
    }

    // w = v_count less its parts along the vectors of the basis before it, twice, for what is left the first time of a
    // part is too small to matter after the second; then w / |w|. h gets the parts, with |w|^2 of the w that was given
    // behind them, `again` what the second time adds. The scalars measure() what is left of w, which says its scale,
    // and rotate().
    template <class S>
    void orthogonalise(S* s, const Basis<T>& v, int count, Wide<T>* h, Wide<T>* again) {
        if (Queue::Shortcuts::orthogonalise(*this, s, v, count, h, again)) return;
        T* const w = v[count];
        queue.dots(s, n, v, count + 1, w, h, [=] SPMVGPU_DEVICE(S&) {});
        queue.combine(
            s, n, v, [=] SPMVGPU_DEVICE(const S&) { return count; }, h, -1, w, Nothing{});
        queue.dots(s, n, v, count, w, again, [=] SPMVGPU_DEVICE(S&) {});
        queue.combine(
            s, n, v, [=] SPMVGPU_DEVICE(const S&) { return count; }, again, -1, w,
            [=] SPMVGPU_DEVICE(S & s, const Sums<T, 1>& sums) {
                s.measure(sums.real(0));
                s.rotate();
            });
        sweep(s, read(w), write(w), [=] SPMVGPU_DEVICE(const S& s, T w) { return put(s.scale * w); });
    }

    // One pass over vectors, and what it sums.
    template <class S, class R, class W, class Step, class Then = Nothing>
    void sweep(S* s, const R& reads, const W& writes, const Step& step, const Then& then = {}) {
        queue.sweep(s, n, reads, writes, step, then);
    }
    // A sweep that only sums.
    template <class S, class R, class Step, class Then>
    void reduce(S* s, const R& reads, const Step& step, const Then& then) {
        queue.sweep(s, n, reads, Writes<T, 0>{}, step, then);
    }

    // x = the guess, r = b - A x, with the norms of b and r; and what they mean for the solve. False if it is over.
    template <class S>
    bool start(S* s, S initial, T* r) {
        initial.maxiter = limits.maxiter;
        initial.rtol = limits.rtol;
        initial.atol = std::ldexp(limits.atol, scales_.b);
        initial.eps = epsilon<T>();
        initial.shift = shift();
        initial.has_m = has_preconditioner();
        if (!limits.scaled) {
            constexpr int kExponent = sizeof(Real<T>) == sizeof(float) ? 100 : 512;
            initial.lowest = std::ldexp(1.0, -kExponent);
            initial.highest = std::ldexp(1.0, kExponent);
        }
        initial.history = work.history;
        initial.history_size = work.history_size;
        queue.put_scalars(s, initial);
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
        const S now = queue.read_scalars(s);
        if (now.status == Status::kConverged && now.norm_b == 0) {
            sweep(s, read(b()), write(x), [=] SPMVGPU_DEVICE(const S&, T) { return put(T(0)); });
        }
        return now.status == Status::kRunning;
    }

    // Iterates until the scalars say that it is over: iteration(run, s, k) does the k-th iteration, where `run` is this
    // context or, in a kernel that does many of them or a part of one, what has the same has_preconditioner(),
    // multiply(), multiply_and_dot(), precondition(), sweep() and reduce() there (see resident.cuh and chained.cuh).
    // After `period` iterations the vectors play the same parts again.
    template <class S, class Iteration>
    void iterate(S* s, int period, const Iteration& iteration) {
        iterates_ = true;
        if (!Queue::Shortcuts::iterate(*this, s, period, iteration)) {
            repeat(s, period, 1, [&](std::int64_t k) { iteration(*this, s, k); });
        }
        iterates_ = false;
    }

    // As iterate(), for iterations that do more than one kernel can: iterate(k) queues the k-th one.
    template <class S, class Iterate>
    void repeat(S* s, int period, int iterations_each, Iterate&& iterate) {
        iterates_ = true;
        Pace pace;
        // Ranks do the same work all at once, so none of them may have some queued beyond the end.
        pace.each = limits.look_each || limits.look_restarts || work.system.ranks != nullptr;
        pace.period = period;
        pace.first = std::max(1, pace.first / iterations_each);
        pace.every = (limits.look_every + iterations_each - 1) / iterations_each;
        pace.most = std::max(1, static_cast<int>(work.history_size - 1) / iterations_each);
        pace.recordable = limits.recorded && work.system.A->can_be_recorded() &&
                          (!has_preconditioner() || work.system.M->can_be_recorded());
        queue.repeat(pace, iterate, [&] { return !is_over(s); });
        iterates_ = false;
    }

    // Iterations that may pass between two looks at the solve, of one that stops by itself.
    std::int64_t iterations_per_look() const {
        const std::int64_t recorded = work.history_size - 1;
        if (limits.look_each) return 1;
        return limits.look_every > 0 ? std::min<std::int64_t>(limits.look_every, recorded) : recorded;
    }

    // Looks at the solve, which is over or not, as the scalars say.
    template <class S>
    S look(S* s) {
        const S now = queue.read_scalars(s);
        if (!limits.look_each || now.iterations > told_) tell(s, now);
        return now;
    }
    template <class S>
    bool is_over(S* s) {
        return look(s).status != Status::kRunning;
    }

    // What the true residual says of iterations that have ended.
    enum class Truth {
        kOver,      // there is nothing to be done any more
        kBetter,    // it is not small enough yet, but half of what it was when it was computed last: the solve goes on
        kNoBetter,  // it is neither
    };

    // r = b - A x, and what it means for iterations that have converged, as they say, or broke down on the way.
    template <class S>
    Truth verify(S* s, T* r) {
        S now = queue.read_scalars(s);
        if (now.status == Status::kOutOfRange) return Truth::kOver;
        keep_residuals(now);
        if (limits.scaled) round_x();
        now.stopped = 0;
        queue.put_scalars(s, now);
        const Factor<double> shift = this->shift();
        multiply(x, r);
        sweep(
            s, read(b(), x, r), write(r),
            [=] SPMVGPU_DEVICE(const S&, T b, T x, T ax) {
                const T r = b - (ax - shift * x);
                return put(r).sum(square(r));
            },
            [=] SPMVGPU_DEVICE(S & s, const Sums<T, 1>& sums) { s.residual = root(sums.real(0)); });
        const double before = true_residual_;
        true_residual_ = queue.read_scalars(s).residual;
        const Status said = now.status;
        const bool is_small = true_residual_ <= now.asked;
        const auto ends = [&](Status status) {
            now.status = status;
            queue.put_scalars(s, now);
            return Truth::kOver;
        };
        if (is_small && said != Status::kNotFinite) return ends(Status::kConverged);
        const bool may_go_on = said == Status::kConverged || said == Status::kStagnated || said == Status::kSingular ||
                               said == Status::kRho || said == Status::kOmega;
        if (!may_go_on) return ends(said);
        if (!finite(true_residual_)) {
            now.offending_value = true_residual_;
            return ends(Status::kNotFinite);
        }
        if (true_residual_ < 0.5 * before) return revive(s) ? Truth::kBetter : Truth::kOver;
        ends(said == Status::kConverged ? Status::kStagnated : said);
        return Truth::kNoBetter;
    }

    double true_residual() const { return true_residual_; }  // as verify() computed it last

    // Lets iterations go on, towards a residual by which the true one is sure to be small enough; false if there have
    // been as many as are allowed.
    template <class S>
    bool revive(S* s) {
        S now = queue.read_scalars(s);
        now.stopped = 0;
        now.status = now.iterations < now.maxiter ? Status::kRunning : Status::kExhausted;
        now.goal = 0.5 * now.asked;
        queue.put_scalars(s, now);
        return now.status == Status::kRunning;
    }

    // For methods that begin anew from r whenever the solve is not over.
    template <class S>
    bool goes_on(S* s, T* r) {
        return verify(s, r) == Truth::kBetter;
    }

    // The report of a solve that is over, as verify() or start() has said.
    template <class S>
    void finish(S* s) {
        const S now = queue.read_scalars(s);
        keep_residuals(now);
        if (limits.scaled && now.status != Status::kOutOfRange) {
            scale_by_power(queue, n, x, x, -scales_.x());
            queue.read_scalars(s);  // which waits for it
        }
        report.status = now.status;
        report.iterations = now.iterations;
        report.offending_value = now.offending_value;
        report.products += now.products;
        report.preconditionings = work.has_operator() ? report.preconditionings + now.preconditionings : 0;
        report.residual = std::ldexp(now.residual, -scales_.b);
        report.true_residual = finite(true_residual_) ? std::ldexp(true_residual_, -scales_.b) : report.residual;
        report.goal = std::ldexp(now.asked, -scales_.b);
        report.norm_b = std::ldexp(now.norm_b, -scales_.b);
    }

    Report report;

    static constexpr double kInfinity = std::numeric_limits<double>::infinity();

private:
    // Measures the system and makes it another one, whose numbers are near 1.
    void scale() {
        const auto& [magnitude, scaled_b, scaled_diagonal, az] = work.scaled;
        const auto exponent = [this, memory = magnitude](const T* v) { return exponent_of(queue, memory, n, v); };
        // The exponent that makes one vector as large as another; 0 where either has no size.
        const auto towards = [](std::optional<int> wanted, std::optional<int> is) {
            return wanted && is ? *wanted - *is : 0;
        };
        scales_.b = towards(0, exponent(work.system.b));
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
        // A product is scaled once it is there; it and the vector that it is made of are to be as far from the limits.
        const int of_M = work.has_operator() ? scales_.M : 0,
                  middle = (std::max({0, scales_.A, of_M}) + std::min({0, scales_.A, of_M})) / 2;
        constexpr int kMost = sizeof(Real<T>) == sizeof(float) ? 40 : 200;
        const int raised = std::clamp(middle, -kMost, kMost);
        scale_by_power(queue, n, scaled_b, scaled_b, raised);
        scales_.b += raised;
    }

    // x as the caller will get it, and back: what its type does not hold is lost.
    void round_x() {
        scale_by_power(queue, n, x, x, -scales_.x());
        scale_by_power(queue, n, x, x, scales_.x());
    }

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

    template <class S>
    void tell(S* s, const S& now) {
        if (now.status == Status::kOutOfRange) return;  // it begins anew
        keep_residuals(now);
        told_ = now.iterations;
        if (!look_) return;
        const bool shows_x = limits.scaled && (limits.look_each || limits.look_restarts);
        if (shows_x) {
            scale_by_power(queue, n, x, x, -scales_.x());
            queue.read_scalars(s);  // which waits for it
        }
        look_(
            {now.iterations, std::ldexp(now.residual, exponent_of_residuals<S>()), std::ldexp(now.norm_b, -scales_.b)});
        if (shows_x) scale_by_power(queue, n, x, x, scales_.x());
    }

    template <class S>
    int exponent_of_residuals() const {
        return S::kRecordsMr ? -scales_.b - scales_.M : -scales_.b;
    }

    // Fetches the residuals since the last time.
    template <class S>
    void keep_residuals(const S& now) {
        if (!limits.record || now.status == Status::kOutOfRange) return;
        std::vector<double> ring(std::min(now.iterations + 1, work.history_size));
        queue.download(ring.data(), work.history, ring.size() * sizeof(double));
        for (auto k = static_cast<std::int64_t>(report.residuals.size()); k <= now.iterations; ++k) {
            report.residuals.push_back(std::ldexp(ring[k % work.history_size], exponent_of_residuals<S>()));
        }
    }

    const LookAt& look_;
    std::int64_t told_ = 0;
    Scales scales_;
    bool iterates_ = false;  // then products may be recorded, or be more than count: scalars count those that do
    double true_residual_ = kInfinity;
};

}  // namespace spmvgpu
