#include "core/mutex.hpp"

#include <pthread.h>

namespace spmvgpu {

namespace {

std::uint32_t generation = 0;  // changes only while a process has a single thread
[[maybe_unused]] const int fork_handler = pthread_atfork(nullptr, nullptr, [] { ++generation; });

}  // namespace

std::uint32_t fork_generation() { return generation; }

}  // namespace spmvgpu
