// Helpers for the OpenMP backend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

// Compiles a function for AVX-512, AVX2 and the baseline, and picks at load time what the machine has.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__gnu_linux__)
#define SPMVGPU_SIMD_CLONES __attribute__((target_clones("arch=skylake-avx512", "arch=haswell", "default")))
#else
#define SPMVGPU_SIMD_CLONES
#endif

namespace spmvgpu {

int max_threads();  // 1 in a process that was forked off: OpenMP's threads do not survive a fork

// Bounds the threads of the calling thread's parallel work while it lives.
class ThreadLimit {
public:
    explicit ThreadLimit(int threads);
    ~ThreadLimit();
    ThreadLimit(const ThreadLimit&) = delete;
    ThreadLimit& operator=(const ThreadLimit&) = delete;

private:
    int before_;
};

// Threads for so many units of work, one unit being about a nanosecond: one, or all. Nothing in between, because OpenMP
// ends threads when a team is smaller than the one before, and starting them again takes longer than a product.
int threads_for(std::int64_t work);

// Begin of part p of n items cut into `parts` nearly equal parts; part p ends where p + 1 begins.
inline std::int64_t part_begin(std::int64_t n, int parts, int p) { return n / parts * p + n % parts * p / parts; }

// Calls part(begin, end) for parts of `bytes` bytes, by several threads at once; begin is a multiple of 64.
void parallel_parts(std::size_t bytes, const std::function<void(std::size_t begin, std::size_t end)>& part);

// memcpy by several threads: one core does not reach the memory bandwidth of a socket.
void parallel_copy(void* to, const void* from, std::size_t bytes);

// memcpy past the caches, for what another device reads next: from the caches of several cores it would read at half
// the speed. `to` must be aligned to 16 bytes.
void streaming_copy(void* to, const void* from, std::size_t bytes);

}  // namespace spmvgpu
