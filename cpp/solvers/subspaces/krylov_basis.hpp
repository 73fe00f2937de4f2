// An orthonormal basis of a Krylov subspace on a device, as the Lanczos method builds it and restarts it.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "solvers/system/linear_map.hpp"
#include "solvers/system/memory.hpp"

namespace spmvgpu {

// Vectors v_0, v_1, ... of length n. All functions are complete on return.
template <class T>
class KrylovBasis {
public:
    virtual ~KrylovBasis() = default;

    // v_place = x made orthonormal to those before. Gives the coefficients of x in v_0 to v_place, the last of which is
    // the norm of what was left; if nothing was, v_place is zero.
    virtual std::vector<Wide<T>> put(const T* x, int place) = 0;

    // The exponent of |map v_0|, which it leaves in v_1; none if that is zero or not finite.
    virtual std::optional<int> exponent(const LinearMap<T>& map) = 0;

    // v_j+1 = 2^exponent map v_j made orthonormal to those before, for j from `first` to `last` - 1. Gives, for each j,
    // the product of map v_j with v_j, whose real part counts, and the norm of what was left.
    virtual std::vector<double> extend(const LinearMap<T>& map, int first, int last, int exponent) = 0;

    // The first `to` vectors become combinations of the first `from`, with the factors q[c * from + j] of v_j in the
    // c-th; and v_from becomes the next one.
    virtual void restart(const Wide<T>* q, int from, int to) = 0;

    // The same combinations of vectors elsewhere on the device, one after the other.
    virtual void combine(const Wide<T>* q, int from, int count, T* to) = 0;

    // map v_place, elsewhere on the device.
    virtual void multiply(const LinearMap<T>& map, int place, T* to) = 0;
};

// Of at most `length` vectors. `memory` says the device.
template <class T>
std::unique_ptr<KrylovBasis<T>> make_krylov_basis(index_t n, int length, std::shared_ptr<SolverMemory> memory);

namespace gpu {

template <class T>
std::unique_ptr<KrylovBasis<T>> make_krylov_basis(index_t n, int length, std::shared_ptr<SolverMemory> memory);

}  // namespace gpu

}  // namespace spmvgpu
