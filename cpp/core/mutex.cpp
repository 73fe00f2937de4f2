#include "core/mutex.hpp"

#include <stdexcept>

#include "core/system.hpp"

namespace spmvgpu {

namespace {

std::uint32_t generation = 0;  // changes only while a process has a single thread
[[maybe_unused]] const bool generations_handler = system::call_after_fork([] { ++generation; });

}  // namespace

std::uint32_t fork_generation() { return generation; }

void Mutex::refuse() {
    throw std::runtime_error(
        "a signal handler uses an operator in the middle of a call that uses it too; let the handler take note of the "
        "signal, and use the operator after the call");
}

}  // namespace spmvgpu
