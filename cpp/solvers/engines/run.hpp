// A run: what an iteration of a method multiplies and sweeps with. Context does its steps one after the other on any
// engine; runs of a GPU's kernels do many iterations, or a part of one, in a kernel (resident.cuh, chained.cuh).
#pragma once

#include <concepts>
#include <cstdint>

#include "solvers/engines/sweep.hpp"

namespace spmvgpu {

// R is a run for vectors of T, with the scalars S of a method.
template <class R, class T, class S>
concept SolverRun = requires(R& run, S* s, const T* from, T* to, Wide<T>* parts) {
    { run.has_preconditioner() } -> std::same_as<bool>;
    // to = A from
    run.multiply(from, to);
    // to = A from,  then(scalars, from.to and to.W to). `parts` are Work::parts_of_dots(), for runs whose products
    // leave the inner products; a null W is ones.
    run.multiply_and_dot(s, from, to, from, parts, NoWork{});
    // M from, which is `from` itself without a preconditioner, and otherwise stored in `to`.
    { run.precondition(s, from, to) } -> std::same_as<const T*>;
    // One pass over vectors, its sums, and the scalar work with them.
    run.sweep(s, read(from), write(to), NoWork{}, NoWork{});
    run.sweep(s, read(from), write(to), NoWork{});
    // A sweep that only sums.
    run.reduce(s, read(from), NoWork{}, NoWork{});
};

// Steps of sweeps that runs share.
template <class T>
struct TimesDiagonal {
    template <class S>
    constexpr auto operator()(const S&, T r, T m) const {
        return put(m * r);
    }
};
template <class T>
struct DotsOfProduct {
    template <class S>
    constexpr auto operator()(const S&, T x, T y, T w) const {
        return sum<T>(dot(x, y), dot(y, T(w * y)));
    }
};

// The steps of a run that follow from its multiply() and its sweep(); see SolverRun.
template <class Derived, class T>
class RunSteps {
public:
    SPMVGPU_IN_RUN(class S, class R, class Step, class Then)
    void reduce(S* s, const R& reads, const Step& step, const Then& then) {
        derived().sweep(s, reads, Writes<T, 0>{}, step, then);
    }

    // beside() queues work that needs no sums, after the product.
    SPMVGPU_IN_RUN(class S, class Then, class Beside = NoWork)
    void multiply_and_dot(S* s, const T* from, T* to, const T* w, const Wide<T>* /*parts*/, const Then& then,
                          const Beside& beside = {}) {
        derived().multiply(from, to);
        beside();
        reduce(s, read(from, to, maybe(w)), DotsOfProduct<T>{}, then);
    }

private:
    constexpr Derived& derived() { return static_cast<Derived&>(*this); }
};

}  // namespace spmvgpu
