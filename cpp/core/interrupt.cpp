#include "core/interrupt.hpp"

#include <utility>

namespace spmvgpu {

namespace {

InterruptCheck installed = nullptr;  // set once, when the module is imported

thread_local const std::atomic<bool>* loop_failed = nullptr;  // flag of the loop that the thread works on

thread_local bool uninterrupted = false;

// Takes the calling thread out of its loop while it lives. A signal handler may multiply: that is no part of the loop.
class OutsideOfLoop {
public:
    OutsideOfLoop() : loop_(std::exchange(loop_failed, nullptr)) {}
    ~OutsideOfLoop() { loop_failed = loop_; }
    OutsideOfLoop(const OutsideOfLoop&) = delete;
    OutsideOfLoop& operator=(const OutsideOfLoop&) = delete;

private:
    const std::atomic<bool>* loop_;
};

}  // namespace

SharedLoop::SharedLoop(const std::atomic<bool>& failed) { loop_failed = &failed; }

SharedLoop::~SharedLoop() { loop_failed = nullptr; }

Uninterrupted::Uninterrupted() : before_(std::exchange(uninterrupted, true)) {}

Uninterrupted::~Uninterrupted() { uninterrupted = before_; }

bool SharedLoop::is_inside() { return loop_failed != nullptr; }

void set_interrupt_check(InterruptCheck check) { installed = check; }

void check_interrupt() {
    if (loop_failed != nullptr && loop_failed->load(std::memory_order_relaxed)) throw Abandoned();
    if (installed == nullptr || uninterrupted) return;
    const OutsideOfLoop outside;
    installed();
}

}  // namespace spmvgpu
