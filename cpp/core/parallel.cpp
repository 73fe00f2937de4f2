#include "core/parallel.hpp"

#include <omp.h>
#include <pthread.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <cstring>

namespace spmvgpu {

namespace {

bool is_forked = false;
[[maybe_unused]] const int fork_handler = pthread_atfork(nullptr, nullptr, [] { is_forked = true; });

}  // namespace

int max_threads() { return is_forked ? 1 : omp_get_max_threads(); }

ThreadLimit::ThreadLimit(int threads) : before_(omp_get_max_threads()) {
    omp_set_num_threads(std::clamp(threads, 1, before_));
}

ThreadLimit::~ThreadLimit() { omp_set_num_threads(before_); }

int threads_for(std::int64_t work) {
    constexpr std::int64_t kWorthWaking = 40'000;
    return work < kWorthWaking ? 1 : max_threads();
}

void parallel_parts(std::size_t bytes, const std::function<void(std::size_t, std::size_t)>& part) {
    constexpr std::size_t kWorthWaking = 128 << 10, kLine = 64;
    constexpr int kMaxThreads = 8;  // reach several times the bandwidth of a PCIe bus
    const int threads = bytes < kWorthWaking ? 1 : std::min(max_threads(), kMaxThreads);
    const std::size_t lines_per_thread = (bytes / kLine + threads) / threads;
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int t = 0; t < threads; ++t) {
        const std::size_t begin = std::min(bytes, t * lines_per_thread * kLine);
        const std::size_t end = std::min(bytes, begin + lines_per_thread * kLine);
        if (begin < end) part(begin, end);
    }
}

void parallel_copy(void* to, const void* from, std::size_t bytes) {
    parallel_parts(bytes, [&](std::size_t begin, std::size_t end) {
        std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin, end - begin);
    });
}

void streaming_copy(void* to, const void* from, std::size_t bytes) {
    std::size_t done = 0;
#ifdef __SSE2__
    auto* const target = static_cast<__m128i*>(to);
    const auto* const source = static_cast<const __m128i*>(from);
    for (; done + 64 <= bytes; done += 64) {
        for (std::size_t i = done / 16; i < done / 16 + 4; ++i)
            _mm_stream_si128(target + i, _mm_loadu_si128(source + i));
    }
    _mm_sfence();
#endif
    std::memcpy(static_cast<char*>(to) + done, static_cast<const char*>(from) + done, bytes - done);
}

}  // namespace spmvgpu
