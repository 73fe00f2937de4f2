#include "solvers/preconditioners/projection.hpp"

#include <algorithm>

#include "solvers/engines/host_pieces.hpp"
#include "solvers/engines/pieces_queue.hpp"
#include "solvers/preconditioners/projection_steps.hpp"

namespace spmvgpu {

template <class T>
ProjectedMap<T>::ProjectedMap(std::shared_ptr<const LinearMap<T>> M, index_t n, const T* basis, int count,
                              std::shared_ptr<SolverMemory> memory, RankSums ranks)
    : M_(std::move(M)), memory_(std::move(memory)) {
    space_.n = n;
    space_.basis = {const_cast<T*>(basis), std::size_t(n)};  // never written to
    space_.count = count;
    space_.ranks = std::move(ranks);
    const Device device = memory_->device();
    std::size_t partials = 0;
#ifdef SPMVGPU_CUDA
    if (device.is_gpu()) partials = gpu::projection_partial_bytes(device.ordinal, count, sizeof(Wide<T>), space_.ranks);
#endif
    lease_ = std::make_unique<SolverMemory::Lease>(*memory_, device, [&](Arena& arena) {
        space_.products = arena.take<Wide<T>>(count);
        space_.scalars = arena.take<typename NullSpace<T>::Scalars>(1);
        space_.partials = arena.take<char>(partials);
    });
#ifdef SPMVGPU_CUDA
    if (device.is_gpu()) gpu::start_projections(space_, device.ordinal);
#endif
    if (!device.is_gpu()) *space_.scalars = {};
}

template <class T>
void ProjectedMap<T>::apply_columns(const T* x, T* y, index_t n, index_t columns, Stream stream) const {
    const T* const m = M_ == nullptr ? nullptr : M_->diagonal();
    const bool is_operator = M_ != nullptr && m == nullptr;
    if (is_operator) M_->apply_columns(x, y, n, columns, stream);
    const T* const from = is_operator ? nullptr : x;
#ifdef SPMVGPU_CUDA
    if (memory_->device().is_gpu()) return gpu::project(space_, memory_->device().ordinal, from, m, y, columns, stream);
#endif
    HostPieces pieces(1, std::max(space_.count, kMaxSums) * sizeof(Wide<T>), space_.ranks.function());
    PiecesQueue queue(pieces);
    project(queue, space_, from, m, y, columns);
}

#define INSTANTIATE(T) template class ProjectedMap<T>;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
