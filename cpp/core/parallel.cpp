#include "core/parallel.hpp"

#include <omp.h>
#include <pthread.h>

#include <algorithm>
#include <cstring>

namespace spmvgpu {

namespace {

bool is_forked = false;
[[maybe_unused]] const int fork_handler = pthread_atfork(nullptr, nullptr, [] { is_forked = true; });

}  // namespace

int max_threads() { return is_forked ? 1 : omp_get_max_threads(); }

int threads_for(std::int64_t work) {
    constexpr std::int64_t kWorthWaking = 40'000;
    return work < kWorthWaking ? 1 : max_threads();
}

void parallel_copy(void* to, const void* from, std::size_t bytes) {
    constexpr std::size_t kWorthWaking = 128 << 10;
    constexpr int kMaxThreads = 8;  // reach several times the bandwidth of a PCIe bus
    const int threads = bytes < kWorthWaking ? 1 : std::min(max_threads(), kMaxThreads);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int t = 0; t < threads; ++t) {
        const auto begin = part_begin(static_cast<std::int64_t>(bytes), threads, t);
        const auto end = part_begin(static_cast<std::int64_t>(bytes), threads, t + 1);
        std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin, end - begin);
    }
}

}  // namespace spmvgpu
