// THE list of methods: a method that is added here is compiled for all engines and reachable from Python by its name.
// Included where methods are compiled, once for CPUs and once for each kind of GPU engine.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "solvers/methods/bicgstab.hpp"
#include "solvers/methods/cg.hpp"
#include "solvers/methods/gmres.hpp"
#include "solvers/methods/minres.hpp"

namespace spmvgpu {

template <class... Method>
struct MethodList {
    template <class Call>
    static void for_each_name(const Call& call) {
        (call(Method::kName), ...);
    }

    // Calls call.operator()<Method>() for the method of this name, and returns its result.
    template <class Result, class Call>
    static Result with(std::string_view name, const Call& call) {
        Result result{};
        if (((name == Method::kName && (result = call.template operator()<Method>(), true)) || ...)) return result;
        std::string allowed;
        for_each_name([&](const char* known) { allowed += (allowed.empty() ? "" : ", ") + std::string(known); });
        throw std::invalid_argument("there is no solver '" + std::string(name) + "'; allowed are " + allowed);
    }
};

template <class T>
using Methods = MethodList<Bicgstab<T>, Cg<T>, Gmres<T>, Minres<T>>;

template <class T>
Needs needs_of(std::string_view method, const System<T>& system, const Limits& limits) {
    return Methods<T>::template with<Needs>(method, [&]<class Method>() {
        Work<T> work(system, limits);
        const Method takes(work);
        return work.needs();
    });
}

template <class Method, class T, class Queue>
Reports run_method(Queue& queue, const System<T>& system, const Limits& limits, char* memory, const LookAt& look) {
    Work<T> sizes(system, limits);
    const Method takes(sizes);
    Work<T> work(system, limits, memory, memory + sizes.needs().bytes);
    const Method method(work);
    Context<T, Queue> solve(queue, work, look);
    if (solve.start(method.s, method.initial(), method.r)) method.run(solve);
    return solve.finish(method.s);
}

// Solves with memory of the size from needs_of(); for several columns, with the bytes of each behind the others.
template <class T, class Queue>
Reports run_method(std::string_view method, Queue& queue, const System<T>& system, const Limits& limits, char* memory,
                   const LookAt& look) {
    return Methods<T>::template with<Reports>(
        method, [&]<class Method>() { return run_method<Method>(queue, system, limits, memory, look); });
}

}  // namespace spmvgpu
