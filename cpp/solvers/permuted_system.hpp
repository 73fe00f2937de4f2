// PermutedSystem<T>: a system whose matrix is stored with its rows and columns in another order, in that order. Vectors
// are permuted once at the beginning of a solve and once at its end, instead of in every product.
#pragma once

#include <memory>
#include <optional>

#include "gpu/gather.hpp"
#include "gpu/runtime.hpp"
#include "gpu/stream.hpp"
#include "multi/parted_matrix.hpp"
#include "solvers/system/memory.hpp"
#include "solvers/system/system.hpp"

namespace spmvgpu {

template <class T>
class PermutedSystem {
public:
    // The matrix of a system that can be solved in its order. None if there is no other order, if the caller looks at x
    // during the solve, or if the preconditioner is more than a diagonal, which knows the given order only.
    static const PartedMatrix<T>* matrix_of(const System<T>& system, const Limits& limits) {
        const PartedMatrix<T>* const matrix = system.A->parts();
        if (matrix == nullptr || !matrix->is_permuted() || system.ranks != nullptr || system.gpus_of_ranks != nullptr) {
            return nullptr;
        }
        if (limits.look_each || limits.look_restarts) return nullptr;
        return system.has_operator() ? nullptr : matrix;
    }

    // Reads b, the guess and the diagonal once the work of the stream is done; null: they are complete.
    PermutedSystem(const System<T>& given, const PartedMatrix<T>& matrix, SolverMemory& memory, const Stream* after)
        : given_(given),
          order_(matrix.parts().front().rows.indices),
          lease_(memory, given.device,
                 [this](Arena& arena) {
                     for (T*& vector : vectors_) vector = arena.take<T>(given_.n);
                 }),
          A_(matrix.parts().front().matrix),
          inside_(given) {
        if (after != nullptr) gpu::synchronize(*after, given.device);
        stream_ = gpu::lease_stream(given.device);
        inside_.A = &A_;
        inside_.b = permuted(0, given.b);
        if (given.guess != nullptr) inside_.guess = permuted(1, given.guess);
        if (given.M != nullptr) inside_.M = &M_.emplace(permuted(2, given.M->diagonal()));
        inside_.x = vectors_[3];
        finish();
    }

    const System<T>& inside() const { return inside_; }

    // Writes the solution in the order of the given system.
    void deliver() {
        gpu::scatter(given_.x, inside_.x, order_, T(0), stream_.get());
        finish();
    }

private:
    const T* permuted(int i, const T* from) {
        gpu::gather(vectors_[i], from, order_, stream_.get());
        return vectors_[i];
    }
    void finish() const { gpu::synchronize(stream_.get(), given_.device); }

    const System<T>& given_;
    Array<index_t> order_;
    std::shared_ptr<void> stream_;
    T* vectors_[4];  // b, the guess, the diagonal and x
    SolverMemory::Lease lease_;
    MatrixMap<T> A_;
    std::optional<DiagonalMap<T>> M_;
    System<T> inside_;
};

}  // namespace spmvgpu
