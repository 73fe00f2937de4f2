// The solvers with vectors in pieces on several GPUs, for files that compile them for some types each, side by side.
#pragma once

#include "solvers/cuda.hpp"
#include "solvers/pieces.hpp"
#include "solvers/wait_for_stream.cuh"
#include "vector/cuda_pieces.cuh"

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

#define SPMVGPU_SOLVERS_IN_PIECES_OF(T)                                                                            \
    template Report solve_in_pieces(const SystemInPieces<T>&, Method, const Limits&, SolverMemory&, const Stream*, \
                                    const std::function<void(const Look&)>&);

}  // namespace spmvgpu::cuda
