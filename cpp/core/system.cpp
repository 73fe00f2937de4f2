#include "core/system.hpp"

#ifdef _WIN32
#define NOMINMAX
#include <malloc.h>
#include <process.h>
#include <windows.h>
#else
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>
#endif
#ifdef __linux__
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#endif

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <thread>

namespace spmvgpu::system {

// -- every system

void sleep_forever() noexcept {
    while (true) std::this_thread::sleep_for(std::chrono::hours(1));
}

// -- Windows, and other systems

#ifdef _WIN32

std::shared_ptr<void> allocate(std::size_t bytes, std::size_t alignment) {
    return {_aligned_malloc(bytes, alignment), _aligned_free};
}

static MEMORYSTATUSEX memory_status() {
    MEMORYSTATUSEX status{};
    status.dwLength = sizeof status;
    GlobalMemoryStatusEx(&status);  // leaves zeros where it fails
    return status;
}

std::size_t free_memory() { return memory_status().ullAvailPhys; }
std::size_t total_memory() { return memory_status().ullTotalPhys; }

int process_number() { return _getpid(); }

bool call_after_fork(void (*)()) { return false; }

void* open_library(const char* name) { return LoadLibraryA(name); }
void* find_symbol(void* library, const char* name) {
    return reinterpret_cast<void*>(GetProcAddress(static_cast<HMODULE>(library), name));
}
const char* last_library_error() { return "the library or one that it needs is not there"; }

#else

std::shared_ptr<void> allocate(std::size_t bytes, std::size_t alignment) {
    const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    void* const memory = std::aligned_alloc(alignment, rounded);
#ifdef MADV_HUGEPAGE
    if (memory != nullptr && alignment == kHugePage) madvise(memory, rounded, MADV_HUGEPAGE);
#endif
    return {memory, std::free};
}

static std::size_t bytes_of_pages(int name) {
    return static_cast<std::size_t>(sysconf(name)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

std::size_t free_memory() {
#ifdef _SC_AVPHYS_PAGES
    return bytes_of_pages(_SC_AVPHYS_PAGES);
#else
    return total_memory();  // macOS does not count free pages
#endif
}

std::size_t total_memory() { return bytes_of_pages(_SC_PHYS_PAGES); }

int process_number() { return getpid(); }

bool call_after_fork(void (*function)()) { return pthread_atfork(nullptr, nullptr, function) == 0; }

void* open_library(const char* name) { return dlopen(name, RTLD_NOW | RTLD_LOCAL); }
void* find_symbol(void* library, const char* name) { return dlsym(library, name); }
const char* last_library_error() { return dlerror(); }

#endif

// -- Linux, and other systems

#ifdef __linux__

int thread_number() { return static_cast<int>(syscall(SYS_gettid)); }
bool is_main_thread() { return process_number() == thread_number(); }

int usable_cores() {
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof cores, &cores) == 0) return CPU_COUNT(&cores);
    return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

int current_core() { return sched_getcpu(); }

void keep_off_core(int core, std::span<const int> threads) {
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof cores, &cores) != 0) return;
    CPU_CLR(core, &cores);
    if (CPU_COUNT(&cores) == 0) return;
    for (const int thread : threads) sched_setaffinity(thread, sizeof cores, &cores);
}

void ask_for_short_slice() {
    if (sched_getscheduler(0) != SCHED_OTHER) return;
    struct {  // sched_attr, which the C library does not declare everywhere
        std::uint32_t size = 48, policy = SCHED_OTHER;
        std::uint64_t flags = 0;
        std::int32_t nice = 0;
        std::uint32_t priority = 0;
        std::uint64_t runtime = 100'000, deadline = 0, period = 0;  // nanoseconds
    } attributes;
    attributes.nice = getpriority(PRIO_PROCESS, 0);
    syscall(SYS_sched_setattr, 0, &attributes, 0);  // refused on some systems, which then keep the longer slice
}

#else

int thread_number() { return 0; }
bool is_main_thread() { return true; }
int usable_cores() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }
int current_core() { return -1; }
void keep_off_core(int, std::span<const int>) {}
void ask_for_short_slice() {}

#endif

}  // namespace spmvgpu::system
