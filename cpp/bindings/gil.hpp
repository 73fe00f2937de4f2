// Giving the interpreter's lock away and taking it back, safe at the interpreter's exit.
//
// Once the interpreter is being finalized, a daemon thread that asks for the lock never gets it. Before Python 3.14
// such a thread is ended by a forced unwinding of its stack, which aborts the process at the first destructor or
// `noexcept` function; from 3.14 on it waits for ever. Here it waits for ever in every version, until the process has
// exited.
#pragma once

#include <pybind11/pybind11.h>

#ifdef __GLIBCXX__
#include <cxxabi.h>
#endif

#include <chrono>
#include <utility>

#include "core/system.hpp"

namespace spmvgpu {

// Calls something that may lose the lock and never get it back. By the time that this ends the unwinding, the
// destructors of the call's frames have run. They must not touch Python objects, because the lock is gone: the frames
// may own none.
template <class Call>
decltype(auto) wait_if_ended(Call&& call) {
#ifdef __GLIBCXX__
    try {
        return std::forward<Call>(call)();
    } catch (abi::__forced_unwind&) {
        system::sleep_forever();
    }
#else
    return std::forward<Call>(call)();
#endif
}

// Calls a function of Python's, which may run for long and so lose the lock; the lock is held.
template <class... Arguments>
pybind11::object call_python(const pybind11::object& function, Arguments&&... arguments) {
    const pybind11::tuple given = pybind11::make_tuple(std::forward<Arguments>(arguments)...);
    PyObject* const result = wait_if_ended([&] { return PyObject_Call(function.ptr(), given.ptr(), nullptr); });
    if (result == nullptr) throw pybind11::error_already_set();
    return pybind11::reinterpret_steal<pybind11::object>(result);
}

// Releases the lock while it lives. Within its life, check_interrupt() asks the interpreter whether a signal came.
class GilRelease {
public:
    GilRelease();
    ~GilRelease();
    GilRelease(const GilRelease&) = delete;
    GilRelease& operator=(const GilRelease&) = delete;

    // Calls something with the lock held, in a thread that has released it.
    template <class Call>
    static void with_gil(Call&& call) {
        const Return back;
        wait_if_ended(std::forward<Call>(call));
    }

    // Lets Python handle its signals, in the thread that does so, at most every twentieth of a second and never sooner
    // than that after the lock was given away, so that short calls do not ask for it. Throws
    // pybind11::error_already_set if a handler raises an exception, as that of Ctrl-C does.
    static void check_signals();

private:
    using Clock = std::chrono::steady_clock;

    class Return {
    public:
        Return();
        ~Return();

    private:
        GilRelease* const from_;
    };

    static thread_local GilRelease* innermost_;  // null while the thread has the lock
    GilRelease* const outer_;
    Clock::time_point checked_;  // when signals were last asked for
    PyThreadState* state_;
};

}  // namespace spmvgpu
