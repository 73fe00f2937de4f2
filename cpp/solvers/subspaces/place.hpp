// The place where a subspace method runs during a call: here the CPU. place.cuh has the GPU.
#pragma once

#include <cstddef>

#include "solvers/engines/host_queue.hpp"

namespace spmvgpu {

struct OnHost {
    static std::size_t partial_bytes(Device, int, std::size_t) { return 0; }

    OnHost(Device, void*) {}
    void finish() {}  // waits for all queued work

    HostQueue queue;
};

}  // namespace spmvgpu
