#include <algorithm>

#include "core/value_types.hpp"
#include "solvers/engines/cuda_pieces.cuh"
#include "solvers/engines/pieces_queue.hpp"
#include "solvers/preconditioners/projection_steps.hpp"

namespace spmvgpu::gpu {

std::size_t projection_partial_bytes(int ordinal, int count, std::size_t of_sum, const RankSums& ranks) {
    const int sums = std::max(count, kMaxSums);
    return ranks ? CudaPieces::rank_bytes(ordinal, sums, of_sum, ranks.between_gpus.get())
                 : CudaQueue::partial_bytes(ordinal, sums, of_sum);
}

template <class T>
void project(const NullSpace<T>& space, int ordinal, const T* x, const T* m, T* y, index_t columns, Stream stream) {
    const DeviceGuard guard(ordinal);
    if (const RankSums& ranks = space.ranks) {
        const int sums = std::max(space.count, kMaxSums);
        CudaPieces pieces({ordinal, stream, space.partials}, sums, sizeof(Wide<T>), ranks.between_gpus.get(),
                          ranks.function());
        PiecesQueue queue(pieces);
        return spmvgpu::project(queue, space, x, m, y, columns);
    }
    CudaQueue queue(ordinal, stream, space.partials);
    spmvgpu::project(queue, space, x, m, y, columns);
}

template <class T>
void start_projections(const NullSpace<T>& space, int ordinal) {
    const DeviceGuard guard(ordinal);
    const std::shared_ptr<void> stream = lease_stream(ordinal);
    CudaQueue queue(ordinal, stream.get(), nullptr);
    queue.put_scalars(space.scalars, {});
}

#define INSTANTIATE(T)                                                                        \
    template void project(const NullSpace<T>&, int, const T*, const T*, T*, index_t, Stream); \
    template void start_projections(const NullSpace<T>&, int);
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu::gpu
