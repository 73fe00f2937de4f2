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
void CycleMap<T>::take_vectors(index_t columns) const {
    if (columns <= columns_) return;
    columns_ = columns;
    lease_ = std::make_unique<SolverMemory::Lease>(*memory_, memory_->device(), [&](Arena& arena) {
        vectors_.clear();
        for (const auto& level : levels_) {
            const std::size_t n = (level.inverse ? level.inverse : level.A)->rows();
            const auto take = [&] { return arena.take<T>(n * columns); };
            vectors_.push_back({take(), take(), take(), take()});
        }
    });
}

template <class T>
bool CycleMap<T>::can_be_recorded() const {
    return std::all_of(levels_.begin(), levels_.end(), [](const Level<T>& level) {
        const auto can_be = [](const auto& matrix) { return matrix == nullptr || matrix->can_be_recorded(); };
        return can_be(level.A) && can_be(level.R) && can_be(level.P) && can_be(level.inverse);
    });
}

template <class T>
void CycleMap<T>::apply_columns(const T* x, T* y, index_t, index_t columns, Stream stream) const {
    take_vectors(columns);
#ifdef SPMVGPU_CUDA
    if (memory_->device().is_gpu()) return gpu::run_cycle(*this, memory_->device().ordinal, x, y, columns, stream);
#endif
    static_cast<void>(stream);
    HostColumns queue(columns);
    run_cycle(queue, *this, 0, x, y);
}

#define INSTANTIATE(T) template class CycleMap<T>;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
