// The null space of a singular system, as in PETSc's MatSetNullSpace: P = 1 - N N^H projects vectors on its complement.
#pragma once

#include <memory>

#include "solvers/engines/sweep.hpp"
#include "solvers/system/linear_map.hpp"
#include "solvers/system/memory.hpp"
#include "solvers/system/system.hpp"

namespace spmvgpu {

// An orthonormal basis N of a null space on a device, and the work memory of the projection.
template <class T>
struct NullSpace {
    // Scalars of sweeps that never stop.
    struct Scalars {
        std::int32_t stopped = 0;
        template <class Visit>
        void visit_pointers(Visit&&) {}
    };

    index_t n;
    Basis<T> basis;
    int count;
    Wide<T>* products = nullptr;  // inner products with the basis
    Scalars* scalars = nullptr;
    void* partials = nullptr;  // for a GPU's sums
    RankSums ranks;
};

// y = P M x. The result is orthogonal to the null space, and so is a solution that is a sum of such vectors. Without M,
// x and y may be the same vector.
template <class T>
class ProjectedMap : public LinearMap<T> {
public:
    // M may be a diagonal, or null for the identity. `basis` has `count` orthonormal vectors of length n, one after the
    // other, on the device of the memory. Over ranks n is the length of the pieces of a rank. Only one solve may use
    // the map at a time, because it owns the inner products.
    ProjectedMap(std::shared_ptr<const LinearMap<T>> M, index_t n, const T* basis, int count,
                 std::shared_ptr<SolverMemory> memory, RankSums ranks);

    void apply(const T* x, T* y, Stream stream) const override { apply_columns(x, y, space_.n, 1, stream); }
    void apply_columns(const T* x, T* y, index_t n, index_t columns, Stream stream) const override;
    bool can_be_recorded() const override {
        return !space_.ranks.through_host && (M_ == nullptr || M_->can_be_recorded());
    }

private:
    std::shared_ptr<const LinearMap<T>> M_;
    std::shared_ptr<SolverMemory> memory_;
    std::unique_ptr<SolverMemory::Lease> lease_;
    NullSpace<T> space_;
};

namespace gpu {

// Bytes at NullSpace::partials.
std::size_t projection_partial_bytes(int ordinal, int count, std::size_t of_sum, const RankSums& ranks);

// y = P (m x), or P y if x is null, for columns that lie one after the other; queued on the stream. A null m stands for
// ones.
template <class T>
void project(const NullSpace<T>& space, int ordinal, const T* x, const T* m, T* y, index_t columns, Stream stream);

// Initialises the scalars of a space, which never stop.
template <class T>
void start_projections(const NullSpace<T>& space, int ordinal);

}  // namespace gpu

}  // namespace spmvgpu
