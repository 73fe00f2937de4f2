// The place where a subspace method runs during a call: here the CPU. place.cuh has GPUs.
#pragma once

#include <cstddef>

#include "solvers/engines/host_pieces.hpp"
#include "solvers/engines/pieces_queue.hpp"
#include "solvers/system/system.hpp"

namespace spmvgpu {

class OnHost {
    HostPieces pieces_;

public:
    // Bytes of the memory that a place gets, for up to `sums` sums at once.
    static std::size_t bytes(Device, int /*sums*/, std::size_t /*of_sum*/, const RankSums&) { return 0; }

    OnHost(Device, void*, int sums, std::size_t of_sum, const RankSums& ranks)
        : pieces_(1, sums * of_sum, ranks.function()), queue(pieces_) {}
    OnHost(const OnHost&) = delete;
    OnHost& operator=(const OnHost&) = delete;

    void finish() {}  // waits for all queued work

    PiecesQueue<HostPieces> queue;
};

}  // namespace spmvgpu
