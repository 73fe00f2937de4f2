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

template <class T, class Queue>
void run_cycle(Queue& queue, const CycleMap<T>& cycle, std::size_t number, const T* b, T* x) {
    const Level<T>& level = cycle.levels()[number];
    const auto apply = [&](const AnyMatrix<T>& matrix, const Product<T>& product) {
        multiply_columns(matrix, product, queue.columns(), queue.stream());
    };
    if (level.inverse) return apply(*level.inverse, {b, x});
    const auto& own = cycle.vectors(number);
    const Multiply<T> multiply = [&](T alpha, const T* from, T beta, T* to) {
        apply(*level.A, {from, to, alpha, beta});
    };
    smooth(queue, level, multiply, b, x, true, own.residual, own.direction);
    if (!level.R) return;

    const auto& coarse = cycle.vectors(number + 1);
    queue.each(level.A->rows(), read(b), write(own.residual), [=] SPMVGPU_DEVICE(T b) { return put(b); });
    multiply(T(-1), x, T(1), own.residual);
    apply(*level.R, {own.residual, coarse.b});
    const Level<T>& next = cycle.levels()[number + 1];
    run_cycle(queue, cycle, number + 1, static_cast<const T*>(coarse.b), coarse.x);
    if (next.twice) {
        T* const second = own.direction;  // not needed before the next smoothing
        apply(*next.A, {coarse.x, coarse.b});
        run_cycle(queue, cycle, number + 1, static_cast<const T*>(coarse.b), second);
        queue.each(next.A->rows(), read(coarse.x, second), write(coarse.x), [=] SPMVGPU_DEVICE(T x, T second) {
            return put(Real<T>(Level<T>::kFirst) * x - Real<T>(Level<T>::kSecond) * second);
        });
    }
    apply(*level.P, {coarse.x, x, T(1), T(1)});
    smooth(queue, level, multiply, b, x, false, own.residual, own.direction);
}

}  // namespace spmvgpu
