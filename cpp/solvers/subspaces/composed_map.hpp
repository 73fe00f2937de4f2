// Two maps, one after the other, such as the product of a matrix and its adjoint.
#pragma once

#include <memory>
#include <utility>

#include "solvers/system/linear_map.hpp"
#include "solvers/system/memory.hpp"

namespace spmvgpu {

// One map after another, with a vector of length `between` in between. Only one solve may use it at a time.
template <class T>
class ComposedMap : public LinearMap<T> {
public:
    ComposedMap(std::shared_ptr<const LinearMap<T>> first, std::shared_ptr<const LinearMap<T>> second, index_t between,
                std::shared_ptr<SolverMemory> memory)
        : first_(std::move(first)),
          second_(std::move(second)),
          memory_(std::move(memory)),
          lease_(*memory_, memory_->device(), [&](Arena& arena) { between_ = arena.take<T>(between); }) {}

    void apply(const T* x, T* y, Stream stream) const override {
        first_->apply(x, between_, stream);
        second_->apply(between_, y, stream);
    }
    bool can_be_recorded() const override { return first_->can_be_recorded() && second_->can_be_recorded(); }

private:
    std::shared_ptr<const LinearMap<T>> first_, second_;
    std::shared_ptr<SolverMemory> memory_;
    T* between_ = nullptr;
    SolverMemory::Lease lease_;
};

}  // namespace spmvgpu
