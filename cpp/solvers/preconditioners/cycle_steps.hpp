// The steps of a cycle, for a queue of either kind: included where they are compiled, for CPUs and for GPUs. The queue
// does each step with all columns of vectors.
#pragma once

#include <functional>

#include "solvers/engines/sweep.hpp"
#include "solvers/preconditioners/cycle.hpp"

namespace spmvgpu {

// multiply(alpha, x, beta, y) is y = alpha A x + beta y. It is no template parameter, because functions with lambdas
// for the GPU must not have types of other lambdas.
template <class T>
using Multiply = std::function<void(T alpha, const T* x, T beta, T* y)>;

// x = x + p(A) (b - A x) on a level, or p(A) b if x counts as zero.
template <class T, class Queue>
void smooth(Queue& queue, const Level<T>& level, const Multiply<T>& multiply, const T* b, T* x, bool from_zero, T* r,
            T* d) {
    const index_t n = level.A->rows();
    const T* const m = level.inverse_diagonal;
    const double theta = (level.high + level.low) / 2, delta = (level.high - level.low) / 2, sigma = theta / delta;
    const double first = 1 / theta;
    if (from_zero) {
        queue.each(n, read(b, maybe(m)), write(r, d, x), [=] SPMVGPU_DEVICE(T b, T m) {
            const T step = Real<T>(first) * (m * b);
            return put(b, step, step);
        });
    } else {
        queue.each(n, read(b), write(r), [=] SPMVGPU_DEVICE(T b) { return put(b); });
        multiply(T(-1), x, T(1), r);
        queue.each(n, read(r, maybe(m), x), write(d, x), [=] SPMVGPU_DEVICE(T r, T m, T x) {
            const T step = Real<T>(first) * (m * r);
            return put(step, x + step);
        });
    }
    double rho = 1 / sigma;
    for (int k = 1; k < level.degree; ++k) {
        multiply(T(-1), d, T(1), r);
        const double next = 1 / (2 * sigma - rho), keep = next * rho, add = 2 * next / delta;
        queue.each(n, read(r, maybe(m), d, x), write(d, x), [=] SPMVGPU_DEVICE(T r, T m, T d, T x) {
            const T step = Real<T>(keep) * d + Real<T>(add) * (m * r);
            return put(step, x + step);
        });
        rho = next;
    }
}

// The grids of a cycle with whole vectors.
template <class T, class Queue>
class WholeGrids {
public:
    WholeGrids(Queue& queue, const CycleMap<T>& cycle) : queue_(queue), cycle_(cycle) {}

    const Level<T>& level(std::size_t number) const { return cycle_.levels()[number]; }
    const GridVectors<T>& vectors(std::size_t number) const { return cycle_.vectors(number); }
    Queue& queue(std::size_t /*number*/) const { return queue_; }
    // y = alpha A x + beta y, y = R x, and y = P x + y on a level.
    void multiply(std::size_t number, T alpha, const T* x, T beta, T* y) const {
        apply(*level(number).A, {x, y, alpha, beta});
    }
    void restrict_to_coarser(std::size_t number, const T* x, T* y) const { apply(*level(number).R, {x, y}); }
    void add_prolonged(std::size_t number, const T* x, T* y) const { apply(*level(number).P, {x, y, T(1), T(1)}); }
    // A cycle from a level on.
    void run(std::size_t number, const T* b, T* x) const;

private:
    void apply(const AnyMatrix<T>& matrix, const Product<T>& product) const {
        multiply_columns(matrix, product, queue_.columns(), queue_.stream());
    }

    Queue& queue_;
    const CycleMap<T>& cycle_;
};

// The cycle from a level with a smoother on. `Grids` is WholeGrids or what has the same methods.
template <class T, class Grids>
void run_cycle(const Grids& grids, std::size_t number, const T* b, T* x) {
    auto& queue = grids.queue(number);
    const Level<T>& level = grids.level(number);
    const GridVectors<T>& own = grids.vectors(number);
    const Multiply<T> multiply = [&](T alpha, const T* from, T beta, T* to) {
        grids.multiply(number, alpha, from, beta, to);
    };
    smooth(queue, level, multiply, b, x, true, own.residual, own.direction);
    if (!level.R) return;

    const GridVectors<T>& coarse = grids.vectors(number + 1);
    queue.each(level.A->rows(), read(b), write(own.residual), [=] SPMVGPU_DEVICE(T b) { return put(b); });
    multiply(T(-1), x, T(1), own.residual);
    grids.restrict_to_coarser(number, own.residual, coarse.b);
    const Level<T>& next = grids.level(number + 1);
    grids.run(number + 1, coarse.b, coarse.x);
    if (next.twice) {
        T* const second = coarse.second;
        grids.multiply(number + 1, T(1), coarse.x, T(0), coarse.b);
        grids.run(number + 1, coarse.b, second);
        auto& coarse_queue = grids.queue(number + 1);
        coarse_queue.each(next.A->rows(), read(coarse.x, second), write(coarse.x), [=] SPMVGPU_DEVICE(T x, T second) {
            return put(Real<T>(Level<T>::kFirst) * x - Real<T>(Level<T>::kSecond) * second);
        });
    }
    grids.add_prolonged(number, coarse.x, x);
    smooth(queue, level, multiply, b, x, false, own.residual, own.direction);
}

template <class T, class Queue>
void WholeGrids<T, Queue>::run(std::size_t number, const T* b, T* x) const {
    if (level(number).inverse) return apply(*level(number).inverse, {b, x});
    run_cycle(*this, number, b, x);
}

}  // namespace spmvgpu
