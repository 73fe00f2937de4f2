// What all solvers share: their vectors, products, first residual and stopping, so that a solver's own file has its
// formulas and nothing else.
#pragma once

#include <algorithm>
#include <chrono>
#include <limits>

#include "solvers/engines/pace.hpp"
#include "solvers/engines/progress.hpp"
#include "solvers/engines/scales.hpp"
#include "solvers/engines/sweep.hpp"
#include "solvers/solve.hpp"

namespace spmvgpu {

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
          look_(look),
          diagonal_(system.M == nullptr ? nullptr : system.M->diagonal()) {
        if (limits.scaled) scale();
    }

    Queue& queue;
    const index_t n;
    T* const x;
    const T* b;
    const Limits& limits;
    double shift() const { return std::ldexp(limits.shift, scales_.A); }

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
        initial.atol = std::ldexp(limits.atol, scales_.b);
        if (!limits.scaled) {
            constexpr int kExponent = sizeof(Real<T>) == sizeof(float) ? 100 : 512;
            initial.lowest = std::ldexp(1.0, -kExponent);
            initial.highest = std::ldexp(1.0, kExponent);
        }
        initial.history = history_;
        initial.history_size = history_size_ = history_size;
        S* const s = take<S>(1);
        queue.put_scalars(s, initial);
        return s;
    }

    void multiply(const T* from, T* to) {
        report.products += !iterates_;
        timed(report.product_seconds, [&] { system_.A->apply(from, to, queue.stream()); });
        if (scales_.A != 0) scale_by_power(queue, n, to, to, scales_.A);
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
        system_.A->apply_and_dot(from, to, dots, queue.stream());
    }

    // M's diagonal, null if M is none; solvers that read it as ones then need no step for either case.
    const T* diagonal() const { return diagonal_; }
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
            report.preconditionings += !iterates_;
            timed(report.precondition_seconds, [&] { system_.M->apply(from, to, queue.stream()); });
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
    bool start(S* s, T* r) {
        if (system_.guess != nullptr || limits.guess_is_mb) {
            const double shift = this->shift();
            const T* const guess = limits.guess_is_mb ? precondition(s, b, r) : system_.guess;
            copy(s, guess, x);
            if (limits.scaled)
                scale_by_power(queue, n, x, x, limits.guess_is_mb ? -scales_.A - scales_.M : scales_.x());
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
        if (now.status == Status::kConverged && now.norm_b == 0) clear(s, x);
        return now.status == Status::kRunning;
    }

    // A sweep over whole vectors.
    template <class S, class... Given>
    void sweep(S* s, const Given&... given) {
        queue.sweep(s, n, given...);
    }

    // Iterates until the scalars say that it is over: iteration(run, s, k) does the k-th iteration, where `run` is this
    // context or, in a kernel that does many of them or a part of one, what stands for it there (see resident.hpp and
    // chained.cuh). After `period` iterations the vectors play the same parts again.
    template <class S, class Iteration>
    void iterate(S* s, int period, const Iteration& iteration) {
        const Iterating iterating(*this);
        if constexpr (Queue::kMayCooperate) {
            if (iterate_resident(*this, s, iteration) || iterate_chained(*this, s, period, iteration)) return;
        }
        repeat(s, period, 1, [&](std::int64_t k) { iteration(*this, s, k); });
    }

    // The same for iterations that are more than that: iterate(k) queues the k-th one.
    template <class S, class Iterate>
    void repeat(S* s, int period, int iterations_each, Iterate&& iterate) {
        const Iterating iterating(*this);
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
        if (!limits.look_each || now.iterations > told_) tell(s, now);
        return now.status != Status::kRunning;
    }

    // The same in the middle of an iteration; true if the rest of it is idle.
    template <class S>
    bool look_within(S* s) {
        const S now = queue.read_scalars(s);
        if (now.iterations > told_) tell(s, now);
        return now.stopped != 0;
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
        const double shift = this->shift();
        multiply(x, r);
        queue.sweep(
            s, n, read(b, x, r), write(r),
            SPMVGPU_LAMBDA(const S&, T b, T x, T ax) {
                const T r = b - (ax - Real<T>(shift) * x);
                return put(r).sum(square(r));
            },
            SPMVGPU_LAMBDA(S & s, const Sums<T, 1>& sums) { s.residual = root(real_of(sums[0])); });
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
        report.preconditionings = has_operator() ? report.preconditionings + now.preconditionings : 0;
        report.residual = std::ldexp(now.residual, -scales_.b);
        report.true_residual = finite(true_residual_) ? std::ldexp(true_residual_, -scales_.b) : report.residual;
        report.goal = std::ldexp(now.asked, -scales_.b);
        report.norm_b = std::ldexp(now.norm_b, -scales_.b);
    }

    Report report;

    static constexpr int kHistory = 1024;

    static constexpr double kInfinity = std::numeric_limits<double>::infinity();

private:
    // The calls of iterations, which may be recorded, or be more than the iterations that count: scalars count those.
    class Iterating {
    public:
        explicit Iterating(Context& solve) : solve_(solve), before_(solve.iterates_), memory_(solve.memory_) {
            solve.iterates_ = true;
        }
        ~Iterating() {
            solve_.iterates_ = before_;
            solve_.memory_ = memory_;
        }

    private:
        Context& solve_;
        const bool before_;
        char* const memory_;
    };

    // Measures the system and makes it another one, whose numbers are near 1.
    void scale() {
        const T* const given = b;
        T* const scaled = vector();
        T* const scaled_diagonal = diagonal_ == nullptr ? nullptr : vector();
        Magnitude* const memory = take<Magnitude>(1);
        char* const kept = memory_;
        const auto exponent = [&](const T* v) { return exponent_of(queue, memory, n, v); };
        // The exponent that makes one vector as large as another; 0 where either has no size.
        const auto towards = [](std::optional<int> wanted, std::optional<int> is) {
            return wanted && is ? *wanted - *is : 0;
        };
        scales_.b = towards(0, exponent(given));
        scale_by_power(queue, n, given, scaled, scales_.b);
        b = scaled;
        const std::optional<int> size = exponent(b);
        const T* const mb = precondition(memory, b, x);
        scales_.M = towards(size, exponent(mb));
        if (diagonal_ != nullptr) {
            scale_by_power(queue, n, diagonal_, scaled_diagonal, scales_.M);
            diagonal_ = scaled_diagonal;
        }
        T *const z = vector(), *const az = vector();
        scale_by_power(queue, n, mb, z, scales_.M);
        multiply(z, az);
        scales_.A = towards(exponent(z), exponent(az));
        // A product is scaled once it is there; it and the vector that it is made of are to be as far from the limits.
        const int of_M = has_operator() ? scales_.M : 0,
                  middle = (std::max({0, scales_.A, of_M}) + std::min({0, scales_.A, of_M})) / 2;
        constexpr int kMost = sizeof(Real<T>) == sizeof(float) ? 40 : 200;
        const int raised = std::clamp(middle, -kMost, kMost);
        scale_by_power(queue, n, scaled, scaled, raised);
        scales_.b += raised;
        memory_ = kept;
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
        std::vector<double> ring(std::min(now.iterations + 1, history_size_));
        queue.download(ring.data(), history_, ring.size() * sizeof(double));
        for (auto k = static_cast<std::int64_t>(report.residuals.size()); k <= now.iterations; ++k) {
            report.residuals.push_back(std::ldexp(ring[k % history_size_], exponent_of_residuals<S>()));
        }
    }

    const System<T>& system_;
    char* memory_;
    char* const end_;
    const std::function<void(const Look&)>& look_;
    double* history_ = nullptr;
    std::int64_t history_size_ = 0;
    std::int64_t told_ = 0;
    const T* diagonal_;
    Scales scales_;
    bool iterates_ = false;
    double true_residual_ = kInfinity;
};

}  // namespace spmvgpu
