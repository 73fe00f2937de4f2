// The concept of an engine: sweeps over vectors on its device, done at once or queued.
#pragma once

#include <concepts>
#include <vector>

#include "core/types.hpp"
#include "solvers/engines/pace.hpp"
#include "solvers/engines/sweep.hpp"

namespace spmvgpu {

// Steps that an engine may do in one kernel instead of several. Both are optional: an engine names the struct that has
// them `Shortcuts`, and this one has none. They return false if they have not done the work.
struct NoShortcuts {
    // Context::iterate()
    template <class Solve, class S, class Iteration>
    static bool iterate(Solve&, S*, int /*period*/, const Iteration&) {
        return false;
    }
    // Context::orthogonalise()
    template <class Solve, class S, class T>
    static bool orthogonalise(Solve&, S*, const Basis<T>&, int /*count*/, Wide<T>* /*h*/, Wide<T>* /*again*/) {
        return false;
    }
};

namespace detail {

struct ProbeScalars {
    std::int32_t stopped;
    template <class Visit>
    void visit_pointers(Visit&&) {}
};
// A step, scalar work and the callables of a repetition.
struct Probe {
    Element<float, 1, 1> operator()(const ProbeScalars&, float) const;
    Element<float, 1, 0> operator()(float) const;
    int operator()(const ProbeScalars&) const;
    void operator()(ProbeScalars&) const;
    void operator()(ProbeScalars&, const Sums<float, 1>&) const;
    bool operator()() const;
    void operator()(std::int64_t) const;
};

}  // namespace detail

template <class E>
concept Engine = requires(E engine, detail::ProbeScalars* s, index_t n, const float* v, float* w, Basis<float> basis,
                          double* sums, detail::Probe step, detail::Probe work, detail::Probe call) {
    // One pass over vectors, and its sums (see sweep.hpp); each() has no scalars, and is never idle.
    engine.sweep(s, n, read(v), write(w), step, work);
    engine.sweep(s, n, read(v), write(w), step);
    engine.each(n, read(v), write(w), step);

    // results[k] = v_k.w for the first `count` vectors of a basis, then the scalar work.
    engine.dots(s, n, basis, 1, v, sums, work);
    // w = w + sign * sum of factors[k] v_k, for k below the result of work(scalars); then scalar work with w.w.
    engine.combine(s, n, basis, work, sums, -1.0, w, work);
    // Scalar work alone, which is done even if the solver has stopped.
    engine.compute(s, work);

    // True if it is known, without waiting, that the solver has stopped.
    { engine.knows_idle(s) } -> std::same_as<bool>;
    // Calls the first function with 0, 1, 2, ..., which queues that iteration, for as long as the second returns true.
    engine.repeat(Pace{}, call, call);

    // The scalars are on the device; reading them waits for all queued work. With several columns, put_scalars() writes
    // equal ones for all, with pointers into the memory of each, and read_scalars() reads the first.
    engine.put_scalars(s, *s);
    { engine.read_scalars(s) } -> std::same_as<detail::ProbeScalars>;
    { engine.columns() } -> std::same_as<int>;
    { engine.read_columns(s) } -> std::same_as<std::vector<detail::ProbeScalars>>;
    engine.put_columns(s, std::vector<detail::ProbeScalars>{});
    engine.download(w, v, std::size_t{});
    engine.zero(w, std::size_t{});
    { engine.stream() } -> std::same_as<Stream>;

    { E::kIsGpu } -> std::convertible_to<bool>;
    { E::kIsInPieces } -> std::convertible_to<bool>;  // a PiecesQueue
    typename E::Shortcuts;
};

}  // namespace spmvgpu
