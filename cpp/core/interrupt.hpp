// How a long call notices that the user wants it to end.
#pragma once

#include <atomic>

namespace spmvgpu {

// What the bindings install: throws if the calling thread is to end what it does. Called from any thread, often.
using InterruptCheck = void (*)();
void set_interrupt_check(InterruptCheck check);

// To be called in loops that may take longer than a tenth of a second, about every millisecond. Throws what the
// installed check throws; returns at once in threads that did not come from Python. Memory that the caller was filling
// is in no defined state afterwards.
void check_interrupt();

// What check_interrupt() throws in the threads of a loop that has failed in another one of them. Whoever runs the loop
// reports why it failed, and nobody else gets to see this.
struct Abandoned {};

// Makes the calling thread one of those that share a loop, while it lives. Once `failed` is set nobody needs the rest
// of the loop any more, and check_interrupt() throws Abandoned in all of them.
class SharedLoop {
public:
    explicit SharedLoop(const std::atomic<bool>& failed);
    ~SharedLoop();
    SharedLoop(const SharedLoop&) = delete;
    SharedLoop& operator=(const SharedLoop&) = delete;

    static bool is_inside();  // whether the calling thread is at work on one
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
