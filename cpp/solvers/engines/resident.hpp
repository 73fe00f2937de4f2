// The systems that are solved by one kernel that stays on the device, and their division among its threads.
//
// A small system's iteration takes the latency of its kernels, 3 us each, whatever they do. A resident kernel does the
// same sweeps and products one after the other, with a barrier of its blocks, about 1 us, in place of the end of a
// kernel. An element of the vectors has a thread, and a row a few lanes, for the whole solve, which keep the row's
// first entries in registers. This suits systems whose elements the threads of one wave of blocks can own, one each,
// and whose rows are neither many nor uneven enough to make the product longer than the saved launches:
//
//     a system of the queue     4 launches of cg at 3.1 us                            12.5 us, measured at 10 k
//     unknowns a resident one            3 barriers at 0.9 us, 2 sums over blocks at 0.5 us,
//                               a product at 0.5 us and 3 sweeps at 0.3 us            5.1 us, predicted
//     each round of entries     4 a lane, two loads deep in the L2                    0.4 us
//
// so a row may take seven rounds beyond the one in registers, and all rows together four.
#pragma once

#include <cstdint>
#include <optional>

#include "core/types.hpp"

namespace spmvgpu {

struct ResidentTuning {
    static constexpr int kBlockSize = 512;
    static constexpr int kMaxBlocks = 128;  // one on each multiprocessor of an H200
    static constexpr int kRowEntries = 4;   // entries of a row that a lane keeps in registers
    static constexpr std::int64_t kMaxRows = kBlockSize * kMaxBlocks;
    static constexpr std::int64_t kMaxEntries = 4 * kRowEntries * kMaxRows;
    static constexpr int kMaxPerLane = 8 * kRowEntries;
};

struct ResidentShape {
    int blocks, rows_per_block;
    int lanes;  // lanes that share a row
};

// None if a system is not suitable. The shape does not depend on the device, and so neither does a sum.
constexpr std::optional<ResidentShape> resident_shape(std::int64_t rows, std::int64_t entries,
                                                      std::int64_t longest_row) {
    using Tuning = ResidentTuning;
    if (rows == 0 || rows > Tuning::kMaxRows || entries > Tuning::kMaxEntries) return std::nullopt;
    const auto blocks = [&](int lanes) {
        const int rows_per_block = Tuning::kBlockSize / lanes;
        return static_cast<int>((rows + rows_per_block - 1) / rows_per_block);
    };
    int lanes = 1;
    while (lanes < 32 && lanes * Tuning::kRowEntries * rows < entries && blocks(2 * lanes) <= Tuning::kMaxBlocks)
        lanes *= 2;
    if (longest_row > std::int64_t(Tuning::kMaxPerLane) * lanes) return std::nullopt;
    return ResidentShape{blocks(lanes), Tuning::kBlockSize / lanes, lanes};
}

}  // namespace spmvgpu
