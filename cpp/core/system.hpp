// All services of the operating system; the rest is standard C++. A service that a system lacks is left out: the
// package is slower then, or does not fork.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace spmvgpu::system {

constexpr std::size_t kHugePage = 2 << 20;

// Memory at a multiple of `alignment`, in huge pages if that is kHugePage; null if there is not enough.
std::shared_ptr<void> allocate(std::size_t bytes, std::size_t alignment);
std::size_t free_memory();
std::size_t total_memory();

int process_number();
int thread_number();    // number of the calling thread; 0 where threads have none
bool is_main_thread();  // true where the system cannot say

// Has a function called in every process that is forked off, by its only thread. Registered at start-up: `static const
// bool`.
bool call_after_fork(void (*function)());

int usable_cores();  // cores that this process may run on
int current_core();  // core of the calling thread; -1 where the system cannot say
// Keeps threads, by number, off a core, unless it is the only one.
void keep_off_core(int core, std::span<const int> threads);

// Asks for the shortest time slice of the system, with which the calling thread runs at once when it is woken on a core
// that another program, or the spinning thread of a BLAS, occupies. Otherwise it waits until the other's slice is over,
// which takes milliseconds (Linux 6.6 to 6.11; older versions prefer a thread that has slept, newer ones a thread with
// a short slice).
void ask_for_short_slice();

[[noreturn]] void sleep_forever() noexcept;

// A shared library, and a symbol of it; null where there is none, and then last_library_error() says why.
void* open_library(const char* name);
void* find_symbol(void* library, const char* name);
const char* last_library_error();

}  // namespace spmvgpu::system
