// How a long call notices that the user wants it to end.
#pragma once

namespace spmvgpu {

// What the bindings install: throws if the calling thread is to end what it does. Called from any thread, often.
using InterruptCheck = void (*)();
void set_interrupt_check(InterruptCheck check);

// To be called in loops that may take longer than a tenth of a second, about every millisecond. Throws what the
// installed check throws; returns at once in threads that did not come from Python. Memory that the caller was filling
// is in no defined state afterwards.
void check_interrupt();

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
