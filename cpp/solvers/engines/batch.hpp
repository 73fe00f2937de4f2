// The systems of a batch that one kernel solves, each by a block of threads; see batch.cuh.
#pragma once

#include <cstdint>

#include "core/types.hpp"

namespace spmvgpu {

struct BatchTuning {
    static constexpr int kBlockSize = 512;
    static constexpr int kRowEntries = 4;  // of a lane, in flight
    static constexpr index_t kMaxRows = 8192;
    static constexpr std::int64_t kMaxEntries = 1 << 17;  // of a system

    using Column = std::uint16_t;  // of a system
    static constexpr Column kNoColumn = 0xffff;
};

}  // namespace spmvgpu
