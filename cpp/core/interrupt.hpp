// Interruption of long calls by the user.
#pragma once

#include <atomic>

namespace spmvgpu {

// The check that the bindings install. It throws if the calling thread is to end its work. Any thread may call it,
// often.
using InterruptCheck = void (*)();
void set_interrupt_check(InterruptCheck check);

// Belongs into loops that may take longer than a tenth of a second, about every millisecond. Throws the exception of
// the installed check; returns at once in threads that did not come from Python. Memory that the caller was filling is
// in no defined state afterwards.
void check_interrupt();

// Thrown by check_interrupt() in the other threads of a loop that has failed in one of them. The caller of the loop
// reports the failure; this exception never leaves the loop.
struct Abandoned {};

// Makes the calling thread one of the threads that share a loop, while it lives. Once `failed` is set the rest of the
// loop is pointless, and check_interrupt() throws Abandoned in all of them.
class SharedLoop {
public:
    explicit SharedLoop(const std::atomic<bool>& failed);
    ~SharedLoop();
    SharedLoop(const SharedLoop&) = delete;
    SharedLoop& operator=(const SharedLoop&) = delete;

    static bool is_inside();  // true if the calling thread works on one
};

// While it lives, check_interrupt() does not ask in the calling thread, and so not for the loops that it runs: for work
// that is soon over and must not be left half done.
class Uninterrupted {
public:
    Uninterrupted();
    ~Uninterrupted();
    Uninterrupted(const Uninterrupted&) = delete;
    Uninterrupted& operator=(const Uninterrupted&) = delete;

private:
    bool before_;
};

// Calls check_interrupt() once for about every `period` units of work, of a few nanoseconds each.
class InterruptTimer {
public:
    explicit InterruptTimer(long period = 1 << 18) : period_(period) {}

    void work(long units) {
        done_ += units;
        if (done_ < period_) return;
        done_ = 0;
        check_interrupt();
    }

private:
    long period_, done_ = 0;
};

}  // namespace spmvgpu
