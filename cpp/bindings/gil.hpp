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

namespace spmvgpu {

[[noreturn]] void wait_for_exit() noexcept;

// Gives the lock away while it lives. Within its life, check_interrupt() asks the interpreter whether a signal came.
class GilRelease {
public:
    GilRelease();
    ~GilRelease();
    GilRelease(const GilRelease&) = delete;
    GilRelease& operator=(const GilRelease&) = delete;

    // Calls something with the lock held; in a thread that gave it away.
    template <class Call>
    static void with_gil(Call&& call) {
        const Return back;
#ifdef __GLIBCXX__
        try {
            std::forward<Call>(call)();
        } catch (abi::__forced_unwind&) {
            wait_for_exit();
        }
#else
        std::forward<Call>(call)();
#endif
    }

    // Lets Python handle its signals, in the thread that does so, at most every twentieth of a second and never sooner
    // than that after the lock was given away, so that short calls do not ask for it. Throws
    // pybind11::error_already_set if a handler raises an exception, as that of Ctrl-C does.
    static void check_signals();

private:
    using Clock = std::chrono::steady_clock;

    // Takes the lock back while it lives.
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
