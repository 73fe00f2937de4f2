#include "bindings/gil.hpp"

#include "core/system.hpp"

namespace spmvgpu {

namespace {

void take_lock(PyThreadState* state) {
    try {
        PyEval_RestoreThread(state);
    } catch (...) {  // the forced unwinding; nothing else comes out of C
        system::sleep_forever();
    }
}

}  // namespace

thread_local GilRelease* GilRelease::innermost_ = nullptr;

GilRelease::GilRelease() : outer_(innermost_), checked_(Clock::now()), state_(PyEval_SaveThread()) {
    innermost_ = this;
}

GilRelease::~GilRelease() {
    innermost_ = outer_;
    take_lock(state_);
}

GilRelease::Return::Return() : from_(innermost_) {
    take_lock(from_->state_);
    innermost_ = nullptr;
}

GilRelease::Return::~Return() {
    innermost_ = from_;
    from_->state_ = PyEval_SaveThread();
}

void GilRelease::check_signals() {
    constexpr auto kPause = std::chrono::milliseconds(50);
    if (innermost_ == nullptr) return;
    const auto now = Clock::now();
    if (now - innermost_->checked_ < kPause) return;
    innermost_->checked_ = now;
    // Elsewhere Python handles no signals: nothing is gained by asking for its lock, and at its exit a thread that asks
    // never comes back.
    if (!system::is_main_thread()) return;
    with_gil([] {
        if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
    });
}

}  // namespace spmvgpu
