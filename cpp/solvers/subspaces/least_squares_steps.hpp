// The steps of least-squares methods, for a place of either kind: included where they are compiled, for CPUs and for
// GPUs.
#pragma once

#include <cmath>
#include <cstdlib>
#include <utility>

#include "core/interrupt.hpp"
#include "solvers/engines/scales.hpp"
#include "solvers/subspaces/least_squares.hpp"

namespace spmvgpu {

// `Place` is OnHost, OnGpu or OnGpuOfRank. Vectors u and v are stored unscaled, with their norms beta and alpha among
// the scalars, so that no pass divides them and nothing waits for a norm.
template <class T, class Place>
class LeastSquaresOn : public LeastSquares<T> {
public:
    using typename LeastSquares<T>::Start;
    using typename LeastSquares<T>::Step;
    using typename LeastSquares<T>::Update;
    using typename LeastSquares<T>::Descent;
    using Map = std::shared_ptr<const LinearMap<T>>;

    struct Scalars {
        std::int32_t stopped = 0;
        double alpha = 0, beta = 0, x_squared = 0, w_squared = 0;
        double gamma = 0, goal_squared = 0, damp_squared = 0, step = 0, ratio = 0;  // for conjugate gradients
        std::int64_t iterations = 0;
        template <class Visit>
        void visit_pointers(Visit&&) {}
    };

    LeastSquaresOn(Map A, Map adjoint, index_t rows, index_t cols, std::shared_ptr<SolverMemory> memory, RankSums ranks)
        : A_(std::move(A)),
          adjoint_(std::move(adjoint)),
          rows_(rows),
          cols_(cols),
          device_(memory->device()),
          memory_(std::move(memory)),
          ranks_(std::move(ranks)) {
        lease_ = std::make_unique<SolverMemory::Lease>(*memory_, device_, [&](Arena& arena) {
            u_ = arena.take<T>(rows);
            product_ = arena.take<T>(rows);
            v_ = arena.take<T>(cols);
            normal_ = arena.take<T>(cols);
            w_ = arena.take<T>(cols);
            p_ = arena.take<T>(cols);
            s_ = arena.take<Scalars>(1);
            magnitude_ = arena.take<Magnitude>(1);
            of_place_ = arena.take<char>(Place::bytes(device_, kMaxSums, sizeof(Wide<T>), ranks_));
        });
    }

    Start start(const T* b, const T* guess, T* x) override {
        Place place = here();
        auto& queue = place.queue;
        exponent_b_ = exponent_A_ = 0;
        queue.put_scalars(s_, Scalars{});
        begin(queue, b, guess, x);
        const std::optional<int> size = exponent_of(queue, magnitude_, rows_, static_cast<const T*>(u_));
        exponent_b_ = far_ones(size.value_or(0));
        if (exponent_b_ != 0) scale_by_power(queue, rows_, static_cast<const T*>(u_), u_, -exponent_b_);
        measure_u(queue);
        adjoint_->apply(u_, v_, queue.stream());
        const std::optional<int> of_v = exponent_of(queue, magnitude_, cols_, static_cast<const T*>(v_));
        exponent_A_ = far_ones(size && of_v ? *of_v - (*size - exponent_b_) : 0);
        if (exponent_A_ != 0) scale_by_power(queue, cols_, static_cast<const T*>(v_), v_, -exponent_A_);
        const int of_x = exponent_A_ - exponent_b_;
        if (of_x != 0 && guess != nullptr) scale_by_power(queue, cols_, static_cast<const T*>(x), x, of_x);
        measure_v(queue);
        const Scalars now = queue.read_scalars(s_);
        return {now.beta, now.alpha, exponent_b_, exponent_A_};
    }

    Step next(T* x, const Update& update, bool has_p, T* variances, double of_variance) override {
        Place place = here();
        auto& queue = place.queue;
        if (variances != nullptr) add_variances(queue, variances, of_variance);
        has_p ? update_with_p(queue, x, update) : update_alone(queue, x, update);
        const double scale = std::ldexp(1.0, -exponent_A_);
        A_->apply(v_, product_, queue.stream());
        step_u(queue, scale);
        adjoint_->apply(u_, normal_, queue.stream());
        step_v(queue, scale);
        check_interrupt();
        const Scalars now = queue.read_scalars(s_);
        return {now.alpha, now.beta, now.x_squared, now.w_squared};
    }

    Descent start_descent(T* x, double damp, double goal) override {
        Place place = here();
        Scalars now = place.queue.read_scalars(s_);
        now.damp_squared = damp * damp;
        now.goal_squared = goal * goal;
        place.queue.put_scalars(s_, now);
        first_direction(place.queue, x);
        return report(place.queue);
    }

    Descent descend(T* x, int iterations) override {
        Place place = here();
        auto& queue = place.queue;
        const double scale = std::ldexp(1.0, -exponent_A_);
        for (int k = 0; k < iterations && !queue.knows_idle(s_); ++k) {
            A_->apply(w_, product_, queue.stream());
            step_length(queue, scale);
            move_r(queue, scale);
            adjoint_->apply(u_, normal_, queue.stream());
            next_direction(queue, x, scale);
            check_interrupt();
        }
        return report(queue);
    }

    void finish(T* x) override {
        Place place = here();
        const int of_x = exponent_b_ - exponent_A_;
        if (of_x != 0) scale_by_power(place.queue, cols_, static_cast<const T*>(x), x, of_x);
        place.finish();
    }

    // The functions below are public, as functions with lambdas for the GPU must be.

    template <class Queue>
    void begin(Queue& queue, const T* b, const T* guess, T* x) {
        if (guess == nullptr) {
            queue.each(rows_, read(b), write(u_), [=] SPMVGPU_DEVICE(T b) { return put(b); });
            queue.each(cols_, read(static_cast<const T*>(v_)), write(x), [=] SPMVGPU_DEVICE(T) { return put(T(0)); });
            return;
        }
        queue.each(cols_, read(guess), write(x), [=] SPMVGPU_DEVICE(T guess) { return put(guess); });
        A_->apply(x, product_, queue.stream());
        queue.each(rows_, read(b, static_cast<const T*>(product_)), write(u_),
                   [=] SPMVGPU_DEVICE(T b, T product) { return put(b - product); });
    }

    template <class Queue>
    void measure_u(Queue& queue) {
        queue.sweep(
            s_, rows_, read(static_cast<const T*>(u_)), Writes<T, 0>{},
            [=] SPMVGPU_DEVICE(const Scalars&, T u) { return sum<T>(square(u)); },
            [=] SPMVGPU_DEVICE(Scalars & s, const Sums<T, 1>& sums) { s.beta = root(sums.real(0)); });
    }

    template <class Queue>
    void measure_v(Queue& queue) {
        queue.sweep(
            s_, cols_, read(static_cast<const T*>(v_)), write(v_),
            [=] SPMVGPU_DEVICE(const Scalars& s, T v) {
                const T next = inverse(s.beta) * v;
                return put(next).sum(square(next));
            },
            [=] SPMVGPU_DEVICE(Scalars & s, const Sums<T, 1>& sums) {
                s.alpha = root(sums.real(0));
                s.w_squared = s.alpha > 0 ? 1 : 0;
            });
        queue.sweep(s_, cols_, read(static_cast<const T*>(v_)), write(w_, p_),
                    [=] SPMVGPU_DEVICE(const Scalars& s, T v) { return put(inverse(s.alpha) * v, T(0)); });
    }

    template <class Queue>
    void add_variances(Queue& queue, T* variances, double factor) {
        queue.each(cols_, read(static_cast<const T*>(w_), static_cast<const T*>(variances)), write(variances),
                   [=] SPMVGPU_DEVICE(T w, T variance) { return put(variance + T(factor * square(w))); });
    }

    template <class Queue>
    void update_alone(Queue& queue, T* x, Update by) {
        queue.sweep(
            s_, cols_, read(static_cast<const T*>(v_), static_cast<const T*>(w_), static_cast<const T*>(x)),
            write(w_, x),
            [=] SPMVGPU_DEVICE(const Scalars& s, T v, T w, T x) {
                const T next = Real<T>(by.of_v) * (inverse(s.alpha) * v) + Real<T>(by.of_w) * w;
                const T moved = x + Real<T>(by.of_x) * w;
                return put(next, moved).sum(square(moved), square(next));
            },
            KeepNorms{});
    }

    template <class Queue>
    void update_with_p(Queue& queue, T* x, Update by) {
        queue.sweep(
            s_, cols_,
            read(static_cast<const T*>(v_), static_cast<const T*>(w_), static_cast<const T*>(p_),
                 static_cast<const T*>(x)),
            write(w_, p_, x),
            [=] SPMVGPU_DEVICE(const Scalars& s, T v, T w, T p, T x) {
                const T direction = w + Real<T>(by.of_p) * p;
                const T next = Real<T>(by.of_v) * (inverse(s.alpha) * v) + Real<T>(by.of_w) * w;
                const T moved = x + Real<T>(by.of_x) * direction;
                return put(next, direction, moved).sum(square(moved), square(next));
            },
            KeepNorms{});
    }

    // u = A v / alpha - alpha u / beta, whose norm is the new beta.
    template <class Queue>
    void step_u(Queue& queue, double scale) {
        queue.sweep(
            s_, rows_, read(static_cast<const T*>(product_), static_cast<const T*>(u_)), write(u_),
            [=] SPMVGPU_DEVICE(const Scalars& s, T product, T u) {
                const T next = inverse(s.alpha) * (Real<T>(scale) * product) - Real<T>(s.alpha) * (inverse(s.beta) * u);
                return put(next).sum(square(next));
            },
            [=] SPMVGPU_DEVICE(Scalars & s, const Sums<T, 1>& sums) { s.beta = root(sums.real(0)); });
    }

    // v = A^H u / beta - beta v / alpha, whose norm is the new alpha.
    template <class Queue>
    void step_v(Queue& queue, double scale) {
        queue.sweep(
            s_, cols_, read(static_cast<const T*>(normal_), static_cast<const T*>(v_)), write(v_),
            [=] SPMVGPU_DEVICE(const Scalars& s, T normal, T v) {
                const T next = inverse(s.beta) * (Real<T>(scale) * normal) - Real<T>(s.beta) * (inverse(s.alpha) * v);
                return put(next).sum(square(next));
            },
            [=] SPMVGPU_DEVICE(Scalars & s, const Sums<T, 1>& sums) { s.alpha = root(sums.real(0)); });
    }

    // p = A^H r - damp^2 x, which start() has left in v without the factor beta, and gamma = |p|^2; p is in w_.
    template <class Queue>
    void first_direction(Queue& queue, const T* x) {
        queue.sweep(
            s_, cols_, read(static_cast<const T*>(v_), x), write(w_),
            [=] SPMVGPU_DEVICE(const Scalars& s, T v, T x) {
                const T p = Real<T>(s.beta) * v - Real<T>(s.damp_squared) * x;
                return put(p).sum(square(p));
            },
            [=] SPMVGPU_DEVICE(Scalars & s, const Sums<T, 1>& sums) {
                s.gamma = s.w_squared = sums.real(0);
                s.stopped = !(s.gamma > s.goal_squared);
            });
    }

    template <class Queue>
    void step_length(Queue& queue, double scale) {
        queue.sweep(
            s_, rows_, read(static_cast<const T*>(product_)), Writes<T, 0>{},
            [=] SPMVGPU_DEVICE(const Scalars&, T q) { return sum<T>(square(Real<T>(scale) * q)); },
            [=] SPMVGPU_DEVICE(Scalars & s, const Sums<T, 1>& sums) {
                const double curvature = sums.real(0) + s.damp_squared * s.w_squared;
                s.step = s.gamma / curvature;
                s.stopped = !(curvature > 0) || !finite(s.step);
            });
    }

    template <class Queue>
    void move_r(Queue& queue, double scale) {
        queue.sweep(
            s_, rows_, read(static_cast<const T*>(product_), static_cast<const T*>(u_)), write(u_),
            [=] SPMVGPU_DEVICE(const Scalars& s, T q, T r) { return put(r - Real<T>(s.step) * (Real<T>(scale) * q)); });
    }

    // x has not moved yet, and is read for the gradient.
    template <class Queue>
    void next_direction(Queue& queue, T* x, double scale) {
        queue.sweep(
            s_, cols_, read(static_cast<const T*>(normal_), static_cast<const T*>(w_), static_cast<const T*>(x)),
            write(normal_, x),
            [=] SPMVGPU_DEVICE(const Scalars& s, T normal, T p, T x) {
                const T moved = x + Real<T>(s.step) * p;
                const T gradient = Real<T>(scale) * normal - Real<T>(s.damp_squared) * moved;
                return put(gradient, moved).sum(square(gradient));
            },
            [=] SPMVGPU_DEVICE(Scalars & s, const Sums<T, 1>& sums) {
                s.ratio = sums.real(0) / s.gamma;
                s.gamma = sums.real(0);
                ++s.iterations;
                s.stopped = !(s.gamma > s.goal_squared);
            });
        queue.sweep(
            s_, cols_, read(static_cast<const T*>(normal_), static_cast<const T*>(w_)), write(w_),
            [=] SPMVGPU_DEVICE(const Scalars& s, T gradient, T p) {
                const T next = gradient + Real<T>(s.ratio) * p;
                return put(next).sum(square(next));
            },
            [=] SPMVGPU_DEVICE(Scalars & s, const Sums<T, 1>& sums) { s.w_squared = sums.real(0); });
    }

    struct KeepNorms {
        SPMVGPU_SCALAR void operator()(Scalars& s, const Sums<T, 2>& sums) const {
            s.x_squared = sums.real(0);
            s.w_squared = sums.real(1);
        }
    };

    // The inverse of a norm, or 0 where the norm is zero.
    SPMVGPU_SCALAR static Real<T> inverse(double norm) { return norm > 0 ? Real<T>(1 / norm) : Real<T>(0); }

private:
    Place here() const { return Place(device_, of_place_, kMaxSums, sizeof(Wide<T>), ranks_); }

    template <class Queue>
    Descent report(Queue& queue) {
        const Scalars now = queue.read_scalars(s_);
        return {now.iterations, now.gamma, now.stopped != 0};
    }

    // An exponent so far from 0 that squares could over- or underflow, or else 0.
    static int far_ones(int exponent) {
        constexpr int kFar = sizeof(Real<T>) == sizeof(float) ? 30 : 100;
        return std::abs(exponent) > kFar ? exponent : 0;
    }

    Map A_, adjoint_;
    index_t rows_, cols_;
    Device device_;
    std::shared_ptr<SolverMemory> memory_;
    RankSums ranks_;
    std::unique_ptr<SolverMemory::Lease> lease_;
    T *u_ = nullptr, *product_ = nullptr;                               // with a length of rows
    T *v_ = nullptr, *normal_ = nullptr, *w_ = nullptr, *p_ = nullptr;  // with a length of columns
    Scalars* s_ = nullptr;
    Magnitude* magnitude_ = nullptr;
    void* of_place_ = nullptr;
    int exponent_b_ = 0, exponent_A_ = 0;
};

}  // namespace spmvgpu
