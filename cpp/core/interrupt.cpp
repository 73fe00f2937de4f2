#include "core/interrupt.hpp"

namespace spmvgpu {

namespace {

InterruptCheck installed = nullptr;  // set once, when the module is imported

}  // namespace

void set_interrupt_check(InterruptCheck check) { installed = check; }

void check_interrupt() {
    if (installed != nullptr) installed();
}

}  // namespace spmvgpu
