#include "solvers/preconditioners/cycle.hpp"

#include <algorithm>
#include <stdexcept>

#include "solvers/engines/host_queue.hpp"
#include "solvers/preconditioners/cycle_steps.hpp"

namespace spmvgpu {

template <class T>
CycleMap<T>::CycleMap(std::vector<Level<T>> levels, std::shared_ptr<SolverMemory> memory)
    : levels_(std::move(levels)), memory_(std::move(memory)) {
    if (levels_.empty()) throw std::invalid_argument("a cycle needs one level at least");
    for (const auto& level : levels_) {
        const Level<T>* const last = &levels_.back();
        if ((&level == last) == (level.R != nullptr))
            throw std::invalid_argument("R and P belong to all levels but the last");
        if (level.twice && !level.R) throw std::invalid_argument("the last level is visited once");
    }
}

template <class T>
void CycleMap<T>::take_vectors(std::size_t first, index_t columns) const {
    if (first >= first_ && columns <= columns_) return;
    first_ = first, columns_ = columns;
    lease_ = std::make_unique<SolverMemory::Lease>(*memory_, memory_->device(), [&](Arena& arena) {
        vectors_.assign(first, GridVectors<T>{});
        for (std::size_t k = first; k < levels_.size(); ++k) {
            const std::size_t n = (levels_[k].inverse ? levels_[k].inverse : levels_[k].A)->rows();
            vectors_.push_back(
                GridVectors<T>::of(k == first, levels_[k].twice, [&] { return arena.take<T>(n * columns); }));
        }
    });
}

template <class T>
bool CycleMap<T>::can_be_recorded_from(std::size_t first) const {
    return std::all_of(levels_.begin() + static_cast<std::ptrdiff_t>(first), levels_.end(), [](const Level<T>& level) {
        const auto can_be = [](const auto& matrix) { return matrix == nullptr || matrix->can_be_recorded(); };
        return can_be(level.A) && can_be(level.R) && can_be(level.P) && can_be(level.inverse);
    });
}

template <class T>
void CycleMap<T>::run_from(std::size_t first, const T* b, T* x, index_t columns, Stream stream) const {
    take_vectors(first, columns);
#ifdef SPMVGPU_CUDA
    if (device().is_gpu()) return gpu::run_cycle(*this, first, device().ordinal, b, x, columns, stream);
#endif
    static_cast<void>(stream);
    HostColumns queue(columns);
    WholeGrids(queue, *this).run(first, b, x);
}

#define INSTANTIATE(T) template class CycleMap<T>;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
