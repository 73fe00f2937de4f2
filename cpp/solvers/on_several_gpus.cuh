// The solvers with vectors in pieces on several GPUs, of this process or of several, for files that compile them for
// some types each, side by side.
#pragma once

#include "solvers/engines/cuda_pieces.cuh"
#include "solvers/engines/wait_for_stream.cuh"
#include "solvers/in_pieces.hpp"
#include "solvers/on_gpus.hpp"

namespace spmvgpu::gpu {

template <class T>
Reports solve_in_pieces(std::string_view method, const SystemInPieces<T>& system, const Limits& limits,
                        SolverMemory& memory, const Stream* after, const LookAt& look) {
    const Device given_on = system.whole.device;
    if (after && given_on.is_gpu()) synchronize(*after, given_on.ordinal);  // the copies of b are on other streams
    const Needs needs = system.needs(method, limits);
    std::vector<std::unique_ptr<SolverMemory::Lease>> leases;
    std::vector<std::shared_ptr<void>> leased_streams;
    std::vector<char*> of_pieces;
    std::vector<Stream> streams;
    std::vector<CudaPieces::Place> places;
    for (const auto& lane : system.halos.lanes()) {
        const int ordinal = lane.device.ordinal;
        const std::size_t partials = aligned(CudaQueue::partial_bytes(ordinal, needs.sums, sizeof(Wide<T>)));
        leases.push_back(std::make_unique<SolverMemory::Lease>(memory, partials + needs.bytes, lane.device));
        leased_streams.push_back(lease_stream(ordinal));
        streams.push_back(leased_streams.back().get());
        of_pieces.push_back(leases.back()->data() + partials);
        places.push_back({ordinal, streams.back(), leases.back()->data()});
    }
    CudaPieces queues(places, needs.sums * sizeof(Wide<T>));
    std::vector<std::unique_ptr<WaitForStream>> waits;
    for (const Stream stream : streams) waits.push_back(std::make_unique<WaitForStream>(stream));
    return run_in_pieces(method, queues, system, limits, of_pieces, streams, look);
}

template <class T>
Reports solve_over_ranks(std::string_view method, const System<T>& system, const Limits& limits, SolverMemory& memory,
                         const Stream* after, const LookAt& look) {
    const int ordinal = system.device.ordinal;
    const DeviceGuard guard(ordinal);
    const Needs needs = needs_of(method, system, limits);
    const std::size_t of_sums = CudaPieces::rank_bytes(ordinal, needs.sums, sizeof(Wide<T>), system.gpus_of_ranks);
    SolverMemory::Lease lease(memory, of_sums + needs.bytes, system.device);
    const std::shared_ptr<void> stream = lease_stream(ordinal);
    if (after) order_after(stream.get(), *after);
    CudaPieces pieces({ordinal, stream.get(), lease.data()}, needs.sums, sizeof(Wide<T>), system.gpus_of_ranks,
                      system.ranks);
    const WaitForStream wait(stream.get());
    PiecesQueue queue(pieces);
    return run_method(method, queue, system, limits, lease.data() + of_sums, look);
}

#define SPMVGPU_SOLVE_ON_GPUS(T)                                                                                       \
    template Reports solve_in_pieces(std::string_view, const SystemInPieces<T>&, const Limits&, SolverMemory&,         \
                                     const Stream*, const LookAt&);                                                    \
    template Reports solve_over_ranks(std::string_view, const System<T>&, const Limits&, SolverMemory&, const Stream*, \
                                      const LookAt&);

}  // namespace spmvgpu::gpu
