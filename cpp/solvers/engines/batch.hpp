// The systems of a batch that one kernel solves, each by a block of threads, and their division; see batch.cuh.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/types.hpp"

namespace spmvgpu {

struct BatchTuning {
    static constexpr int kMostThreads = 512, kLeastThreads = 128;
    static constexpr int kThreadsAtOnce = 1024;  // a multiprocessor has registers for as many
    static constexpr int kRowEntries = 4;        // of a lane, in flight
    static constexpr index_t kMaxRows = 8192;
    static constexpr index_t kLongestRow = 1 << 10;
    static constexpr std::size_t kOwnBytes = 7 << 10;  // shared memory for scalars and sums, and for CUDA itself

    using Column = std::uint16_t;  // of a system
    static constexpr Column kNoColumn = 0xffff;
};

struct BatchShape {
    int threads, lanes;  // of a block, and of them those that share a row
    int kept;            // entries of a row that a lane keeps in shared memory: all; 0: none

    constexpr index_t rows_of_round() const { return threads / lanes; }
    constexpr index_t rounds(index_t n) const { return (n + rows_of_round() - 1) / rows_of_round(); }
    constexpr std::size_t kept_bytes(index_t n, std::size_t item_bytes) const {
        return std::size_t(rounds(n)) * kept * threads * (item_bytes + sizeof(BatchTuning::Column));
    }
};

// The shape for systems of n rows. Entries are kept if they fit into this much shared memory of a multiprocessor. The
// time of a product is about that of the entries of a thread, and of loads one after the other if they are read from
// memory.
constexpr BatchShape batch_shape(index_t n, index_t longest_row, index_t systems, std::size_t item_bytes,
                                 int multiprocessors, std::size_t shared_bytes) {
    using Tuning = BatchTuning;
    constexpr int kWarpSize = 32;
    const auto best = [&](int threads) {
        BatchShape kept{threads, 1, longest_row}, read{threads, 1, 0};
        const auto loads = [&](const BatchShape& shape) {
            const index_t at_once = shape.lanes * Tuning::kRowEntries;
            return std::int64_t(shape.rounds(n)) * (1 + 2 * ((longest_row + at_once - 1) / at_once));
        };
        for (int lanes = 2; lanes <= kWarpSize; lanes *= 2) {
            const BatchShape other{threads, lanes, (longest_row + lanes - 1) / lanes};
            if (other.kept_bytes(n, 1) < kept.kept_bytes(n, 1)) kept = other;
            const BatchShape reading{threads, lanes, 0};
            if (loads(reading) < loads(read)) read = reading;
        }
        return kept.kept_bytes(n, item_bytes) + Tuning::kOwnBytes <= shared_bytes ? kept : read;
    };
    const BatchShape widest = best(Tuning::kMostThreads);
    if (widest.kept == 0) return widest;  // more systems at once would not stay in the L2
    // Blocks share a multiprocessor, as far as there are systems and memory for them: one works while others wait.
    const auto fitting = static_cast<int>((shared_bytes - Tuning::kOwnBytes) / widest.kept_bytes(n, item_bytes));
    const int sharing = std::min((systems + multiprocessors - 1) / multiprocessors, fitting);
    int threads = Tuning::kMostThreads;
    while (threads > Tuning::kLeastThreads && threads * sharing > Tuning::kThreadsAtOnce) threads /= 2;
    return threads == widest.threads ? widest : best(threads);
}

}  // namespace spmvgpu
