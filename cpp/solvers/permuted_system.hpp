// PermutedSystem<T>: a system whose matrix is stored in another order of rows and columns, in that order. Vectors are
// permuted once at the beginning of a solve and once at its end, where products would do so every time.
#pragma once

#include <memory>
#include <optional>

#include "gpu/gather.hpp"
#include "gpu/runtime.hpp"
#include "gpu/stream.hpp"
#include "multi/parted_matrix.hpp"
#include "solvers/memory.hpp"
#include "solvers/solve.hpp"

namespace spmvgpu {

template <class T>
class PermutedSystem {
public:
    // The matrix of a system that can be solved in its order. None if there is no other order, if somebody looks at x
    // while it is solved, or if the preconditioner is more than a diagonal, which knows the given order only.
    static const PartedMatrix<T>* matrix_of(const System<T>& system, const Limits& limits) {
        const PartedMatrix<T>* const matrix = system.A->parts();
        if (matrix == nullptr || !matrix->is_permuted() || system.ranks != nullptr || system.gpus_of_ranks != nullptr) {
            return nullptr;
        }
        if (limits.look_each || limits.look_restarts) return nullptr;
        return system.M == nullptr || system.M->diagonal() != nullptr ? matrix : nullptr;
    }

    // Takes b, the guess and the diagonal as they are once what the stream holds is done; null: they are there.
    PermutedSystem(const System<T>& given, const PartedMatrix<T>& matrix, SolverMemory& memory, const Stream* after)
        : given_(given),
          order_(matrix.parts().front().rows.indices),
          lease_(memory, 4 * vector_bytes(), given.device),
          A_(matrix.parts().front().matrix),
          inside_(given) {
        if (after != nullptr) cuda::synchronize(*after, given.device);
        stream_ = cuda::lease_stream(given.device);
        inside_.A = &A_;
        inside_.b = permuted(0, given.b);
        if (given.guess != nullptr) inside_.guess = permuted(1, given.guess);
        if (given.M != nullptr) inside_.M = &M_.emplace(permuted(2, given.M->diagonal()));
        inside_.x = vector(3);
        finish();
    }

    const System<T>& inside() const { return inside_; }

    // Gives the solution in the order of the system that was given.
    void deliver() {
        cuda::scatter(given_.x, inside_.x, order_, T(0), stream_.get());
        finish();
    }

private:
    std::size_t vector_bytes() const { return (given_.n * sizeof(T) + 255) / 256 * 256; }
    T* vector(int i) { return reinterpret_cast<T*>(lease_.data() + i * vector_bytes()); }
    const T* permuted(int i, const T* from) {
        cuda::gather(vector(i), from, order_, stream_.get());
        return vector(i);
    }
    void finish() const { cuda::synchronize(stream_.get(), given_.device); }

    const System<T>& given_;
    Array<index_t> order_;
    std::shared_ptr<void> stream_;
    SolverMemory::Lease lease_;
    MatrixMap<T> A_;
    std::optional<DiagonalMap<T>> M_;
    System<T> inside_;
};

}  // namespace spmvgpu
