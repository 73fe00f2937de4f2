// The solvers with vectors in pieces on several GPUs, of this process or of several, for files that compile them for
// some types each, side by side.
#pragma once

#include "solvers/engines/cuda.hpp"
#include "solvers/engines/cuda_pieces.cuh"
#include "solvers/engines/pieces.hpp"
#include "solvers/engines/wait_for_stream.cuh"

namespace spmvgpu::cuda {

template <class T>
Report solve_in_pieces(const SystemInPieces<T>& system, Method method, const Limits& limits, SolverMemory& memory,
                       const Stream* after, const std::function<void(const Look&)>& look) {
    const Device given_on = system.whole.device;
    if (after && given_on.is_cuda()) synchronize(*after, given_on.ordinal);  // the copies of b are on other streams
    std::vector<std::unique_ptr<SolverMemory::Lease>> leases;
    std::vector<std::shared_ptr<void>> leased_streams;
    std::vector<char*> of_pieces;
    std::vector<Stream> streams;
    std::vector<CudaPieces::Place> places;
    for (const auto& lane : system.halos.lanes()) {
        const int ordinal = lane.device().ordinal;
        const std::size_t partials = CudaQueue::partial_bytes(ordinal, limits.restart + 2, sizeof(Wide<T>));
        const std::size_t aligned = (partials + 255) / 256 * 256;
        leases.push_back(
            std::make_unique<SolverMemory::Lease>(memory, aligned + system.bytes(method, limits), lane.device()));
        leased_streams.push_back(lease_stream(ordinal));
        streams.push_back(leased_streams.back().get());
        of_pieces.push_back(leases.back()->data() + aligned);
        places.push_back({ordinal, streams.back(), leases.back()->data()});
    }
    CudaPieces queues(places, sum_bytes<T>(limits));
    std::vector<std::unique_ptr<WaitForStream>> waits;
    for (const Stream stream : streams) waits.push_back(std::make_unique<WaitForStream>(stream));
    return run_in_pieces(queues, system, of_pieces, streams, method, limits, look);
}

template <class T>
Report solve_over_ranks(const System<T>& system, const NcclCommunicator& ranks, Method method, const Limits& limits,
                        SolverMemory& memory, std::size_t bytes, const Stream* after,
                        const std::function<void(const Look&)>& look) {
    const int ordinal = system.device.ordinal;
    const DeviceGuard guard(ordinal);
    const std::size_t partials = CudaQueue::partial_bytes(ordinal, limits.restart + 2, sizeof(Wide<T>));
    const std::size_t aligned = (partials + 255) / 256 * 256;
    SolverMemory::Lease lease(memory, aligned + bytes, system.device);
    const std::shared_ptr<void> stream = lease_stream(ordinal);
    if (after) order_after(stream.get(), *after);
    CudaPieces pieces({ordinal, stream.get(), lease.data()}, sum_bytes<T>(limits), ranks);
    const WaitForStream wait(stream.get());
    PiecesQueue<CudaPieces> queue(pieces, {{system.n, 0, 0}});  // its memory is that of the first piece
    return run_method(method, queue, system, limits, lease.data() + aligned, bytes, look);
}

#define SPMVGPU_SOLVERS_IN_PIECES_OF(T)                                                                               \
    template Report solve_in_pieces(const SystemInPieces<T>&, Method, const Limits&, SolverMemory&, const Stream*,    \
                                    const std::function<void(const Look&)>&);                                         \
    template Report solve_over_ranks(const System<T>&, const NcclCommunicator&, Method, const Limits&, SolverMemory&, \
                                     std::size_t, const Stream*, const std::function<void(const Look&)>&);

}  // namespace spmvgpu::cuda
