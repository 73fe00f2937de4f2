// Where the steps of a subspace method run, for as long as a call takes: here the CPU. place.cuh has the GPU.
#pragma once

#include <cstddef>

#include "solvers/engines/host_queue.hpp"

namespace spmvgpu {

struct OnHost {
    static std::size_t partial_bytes(Device, int, std::size_t) { return 0; }

    OnHost(Device, void*) {}
    void finish() {}  // waits until all that is queued is done

    HostQueue queue;
};

}  // namespace spmvgpu
