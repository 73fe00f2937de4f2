// A preconditioner of a matrix in two parts, by elimination of the first (Benzi, Golub and Liesen, Numerical Solution
// of Saddle Point Problems, 2005, section 10.1): with P of the first block and S of the Schur complement, the factors
// of
//
//     [ A_00  A_01 ]   [   1            0 ] [ P^-1   0   ]^-1 [ 1  P A_01 ]
//     [ A_10  A_11 ] ~ [ A_10 P         1 ] [  0    S^-1 ]    [ 0    1    ]
#pragma once

#include <array>
#include <memory>
#include <utility>

#include "gpu/gather.hpp"
#include "matrix/any_matrix.hpp"
#include "solvers/system/linear_map.hpp"
#include "solvers/system/memory.hpp"

namespace spmvgpu {

template <class T>
class FieldSplitMap : public LinearMap<T> {
public:
    struct Part {
        Array<index_t> indices;                 // of its unknowns, on the device of the memory
        std::shared_ptr<const LinearMap<T>> M;  // P or S, no diagonal
        // The block of the other part's columns; null where it is left out.
        std::shared_ptr<const AnyMatrix<T>> beside;
    };

    // Only one solve may use the map at a time.
    FieldSplitMap(Part first, Part second, std::shared_ptr<SolverMemory> memory)
        : parts_{std::move(first), std::move(second)},
          memory_(std::move(memory)),
          lease_(*memory_, memory_->device(), [&](Arena& arena) {
              for (int k = 0; k < 2; ++k) {
                  r_[k] = arena.take<T>(parts_[k].indices.size());
                  y_[k] = arena.take<T>(parts_[k].indices.size());
              }
          }) {}

    void apply(const T* x, T* y, Stream stream) const override {
        const auto& [first, second] = parts_;
        for (int k = 0; k < 2; ++k) gpu::gather(r_[k], x, parts_[k].indices, stream);
        if (second.beside != nullptr) {
            first.M->apply(r_[0], y_[0], stream);
            second.beside->spmv({y_[0], r_[1], T(-1), T(1)}, stream);
        }
        second.M->apply(r_[1], y_[1], stream);
        if (first.beside != nullptr) first.beside->spmv({y_[1], r_[0], T(-1), T(1)}, stream);
        if (first.beside != nullptr || second.beside == nullptr) first.M->apply(r_[0], y_[0], stream);
        for (int k = 0; k < 2; ++k) gpu::scatter(y, y_[k], parts_[k].indices, T(0), stream);
    }

    bool can_be_recorded() const override {
        const auto can = [](const Part& part) {
            return part.M->can_be_recorded() && (part.beside == nullptr || part.beside->can_be_recorded());
        };
        return can(parts_[0]) && can(parts_[1]);
    }

private:
    std::array<Part, 2> parts_;
    std::shared_ptr<SolverMemory> memory_;
    T *r_[2] = {}, *y_[2] = {};
    SolverMemory::Lease lease_;
};

}  // namespace spmvgpu
