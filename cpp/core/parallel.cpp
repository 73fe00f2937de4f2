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
    // Below some ten microseconds of work a thread costs more to wake than it brings.
    constexpr std::int64_t kWorkPerThread = 10'000;
    return static_cast<int>(std::clamp<std::int64_t>(work / kWorkPerThread, 1, max_threads()));
}

void parallel_copy(void* to, const void* from, std::size_t bytes) {
    const int threads = threads_for(static_cast<std::int64_t>(bytes / 8));
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int t = 0; t < threads; ++t) {
        const auto begin = part_begin(static_cast<std::int64_t>(bytes), threads, t);
        const auto end = part_begin(static_cast<std::int64_t>(bytes), threads, t + 1);
        std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin, end - begin);
    }
}

}  // namespace spmvgpu
