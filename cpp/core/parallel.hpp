// Parallel loops over the cores of the CPU, and copies.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

// Compiles a function for AVX-512, AVX2 and the baseline, and picks the best version at load time. Called functions
// must be inlined, or else they are compiled for the baseline only. The targets are levels of the instruction set,
// because processor names such as haswell match that processor alone; GCC knows levels since version 12.
#if defined(__x86_64__) && defined(__GNUC__) && __GNUC__ >= 12 && !defined(__clang__) && defined(__gnu_linux__)
#define SPMVGPU_SIMD_CLONES __attribute__((flatten, target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define SPMVGPU_SIMD_CLONES
#endif

namespace spmvgpu {

// Threads that a loop of the calling thread may use: as many as the process has cores, unless SPMVGPU_NUM_THREADS,
// OMP_NUM_THREADS or a limit says otherwise; 1 in a process that was forked off, which is usually one of many.
int max_threads();

// Bounds the threads of the calling thread's loops, and gives the bound that was there.
int set_thread_limit(int threads);

class ThreadLimit {
public:
    explicit ThreadLimit(int threads);  // never above a limit that is there already
    ~ThreadLimit();
    ThreadLimit(const ThreadLimit&) = delete;
    ThreadLimit& operator=(const ThreadLimit&) = delete;

private:
    int before_;
};

// Begin of part p of n items cut into `parts` nearly equal parts; part p ends where p + 1 begins.
inline std::int64_t part_begin(std::int64_t n, std::int64_t parts, std::int64_t p) {
    return n / parts * p + n % parts * p / parts;
}

// Number of pieces of a loop with this much work. It depends on the work alone, and not on the number of threads, so
// that sums over pieces, added in their order, have the same bits on every machine.
inline std::int64_t piece_count(std::int64_t nanoseconds) {
    constexpr std::int64_t kPiece = 20'000, kMost = 4096;  // long enough to be worth waking a thread for
    return std::clamp<std::int64_t>(nanoseconds / kPiece, 1, kMost);
}

// Loops get their bodies behind pointers, so that they are compiled once, and not with every body.
using PieceCall = void (*)(const void* body, std::int64_t piece);
using RangeCall = void (*)(const void* body, std::int64_t begin, std::int64_t end);
template <class Sum>
using SumCall = Sum (*)(const void* body, std::int64_t begin, std::int64_t end);

// Calls body(piece) for every piece from 0 to count - 1, on several threads. An exception of a piece is thrown to the
// caller.
void for_each_piece(std::int64_t count, PieceCall call, const void* body);
template <class Body>
void for_each_piece(std::int64_t count, const Body& body) {
    const PieceCall call = [](const void* b, std::int64_t piece) { (*static_cast<const Body*>(b))(piece); };
    for_each_piece(count, call, &body);
}

// Calls body(begin, end) for pieces that make up 0 to n - 1; the whole loop is `nanoseconds` of work for one thread.
void parallel_ranges(std::int64_t n, std::int64_t nanoseconds, RangeCall call, const void* body);
template <class Body>
void parallel_ranges(std::int64_t n, std::int64_t nanoseconds, const Body& body) {
    const RangeCall call = [](const void* b, std::int64_t begin, std::int64_t end) {
        (*static_cast<const Body*>(b))(begin, end);
    };
    parallel_ranges(n, nanoseconds, call, &body);
}

template <class Index, class Body>
void parallel_for(Index n, std::int64_t nanoseconds, const Body& body) {
    parallel_ranges(n, nanoseconds, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) body(static_cast<Index>(i));
    });
}

// The sum, by +=, of the results of body(begin, end), added in the order of the pieces.
template <class Sum>
Sum parallel_sum(std::int64_t n, std::int64_t nanoseconds, SumCall<Sum> call, const void* body) {
    const std::int64_t pieces = std::min(piece_count(nanoseconds), n);
    if (pieces <= 0) return Sum{};
    if (pieces == 1) return call(body, 0, n);
    std::vector<Sum> sums(pieces);
    for_each_piece(
        pieces, [&](std::int64_t p) { sums[p] = call(body, part_begin(n, pieces, p), part_begin(n, pieces, p + 1)); });
    for (std::int64_t p = 1; p < pieces; ++p) sums[0] += sums[p];
    return std::move(sums[0]);
}
template <class Sum, class Body>
Sum parallel_sum(std::int64_t n, std::int64_t nanoseconds, const Body& body) {
    const SumCall<Sum> call = [](const void* b, std::int64_t begin, std::int64_t end) -> Sum {
        return (*static_cast<const Body*>(b))(begin, end);
    };
    return parallel_sum<Sum>(n, nanoseconds, call, &body);
}

// Calls part(begin, end) for parts of `bytes` bytes that are read and written; begin is a multiple of 64.
template <class Part>
void parallel_parts(std::size_t bytes, const Part& part) {
    constexpr std::size_t kPart = 256 << 10, kLine = 64;
    constexpr int kMaxThreads = 8;  // 8 threads reach several times the bandwidth of a PCIe bus
    const std::int64_t lines = bytes / kLine, parts = std::max<std::int64_t>(1, bytes / kPart);
    const ThreadLimit limit(kMaxThreads);
    for_each_piece(parts, [&](std::int64_t p) {
        part(part_begin(lines, parts, p) * kLine, p + 1 == parts ? bytes : part_begin(lines, parts, p + 1) * kLine);
    });
}

// memcpy by several threads: one core does not reach the memory bandwidth of a socket.
void parallel_copy(void* to, const void* from, std::size_t bytes);

// memcpy past the caches, for memory that another device reads next, because a device reads from the caches of several
// cores at half the speed. Neither address needs an alignment.
void streaming_copy(void* to, const void* from, std::size_t bytes);

}  // namespace spmvgpu
