#include "core/parallel.hpp"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <cstring>
#include <limits>

#include "core/environment.hpp"
#include "core/system.hpp"
#include "core/team.hpp"

namespace spmvgpu {

namespace {

bool is_forked = false;
[[maybe_unused]] const bool forks_handler = system::call_after_fork([] { is_forked = true; });

thread_local int thread_limit = std::numeric_limits<int>::max();

}  // namespace

int max_threads() {
    // This comes first, because a thread that does not exist here may have held the state below.
    if (is_forked) return 1;
    static const int of_process = threads_of_environment().value_or(system::usable_cores());
    return std::min(of_process, thread_limit);
}

int set_thread_limit(int threads) { return std::exchange(thread_limit, std::max(threads, 1)); }

ThreadLimit::ThreadLimit(int threads) : before_(set_thread_limit(std::min(threads, thread_limit))) {}

ThreadLimit::~ThreadLimit() { thread_limit = before_; }

void for_each_piece(std::int64_t count, PieceCall call, const void* body) {
    if (count == 1) return call(body, 0);
    team::run({count, call, body}, max_threads());
}

void parallel_ranges(std::int64_t n, std::int64_t nanoseconds, RangeCall call, const void* body) {
    const std::int64_t pieces = std::min(piece_count(nanoseconds), n);
    if (pieces <= 0) return;
    if (pieces == 1) return call(body, 0, n);
    for_each_piece(pieces, [&](std::int64_t p) { call(body, part_begin(n, pieces, p), part_begin(n, pieces, p + 1)); });
}

void parallel_copy(void* to, const void* from, std::size_t bytes) {
    parallel_parts(bytes, [&](std::size_t begin, std::size_t end) {
        std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin, end - begin);
    });
}

void streaming_copy(void* to, const void* from, std::size_t bytes) {
    auto* const target = static_cast<char*>(to);
    const auto* const source = static_cast<const char*>(from);
    std::size_t done = 0;
#ifdef __SSE2__
    constexpr std::size_t kStore = sizeof(__m128i), kStep = 64;
    // The address of a streaming store must be a multiple of its size; a piece of a NumPy array begins at any number.
    done = std::min(bytes, -reinterpret_cast<std::uintptr_t>(to) % kStore);
    std::memcpy(target, source, done);
    for (; done + kStep <= bytes; done += kStep) {
        for (std::size_t i = done; i < done + kStep; i += kStore) {
            _mm_stream_si128(reinterpret_cast<__m128i*>(target + i),
                             _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i)));
        }
    }
    _mm_sfence();
#endif
    std::memcpy(target + done, source + done, bytes - done);
}

}  // namespace spmvgpu
