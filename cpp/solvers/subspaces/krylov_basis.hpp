// An orthonormal basis of a Krylov subspace on a device, as in the Lanczos method with restarts.
//
// Orthonormal in the inner product of a Hermitian matrix, if there is one, which need not be definite: then the norm of
// v is -sqrt(-(v, v)) where (v, v) is negative.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "solvers/system/linear_map.hpp"
#include "solvers/system/memory.hpp"
#include "solvers/system/system.hpp"

namespace spmvgpu {

// Vectors v_0, v_1, ... of length n. All functions are complete on return. Of a vector over ranks, each has a piece of
// a length n of its own, and all call the functions together.
template <class T>
class KrylovBasis {
public:
    virtual ~KrylovBasis() = default;

    // v_place = x orthonormalised against the earlier vectors. Returns the coefficients of x in v_0 to v_place, the
    // last of which is the norm of the remainder; if that is not positive, v_place is zero.
    virtual std::vector<Wide<T>> put(const T* x, int place) = 0;

    // With v_0 = x, v_1 = y and v_2 = map v_j: the products of v_0, v_1 and v_2 with v_2, first for j = 0, then for 1,
    // where both v_2 are divided by the same power of two. Not finite if map x or map y is not.
    virtual std::vector<Wide<T>> products(const LinearMap<T>& map, const T* x, const T* y) = 0;

    // The exponent of |map v_0| / |v_0|, with map v_0 stored in v_1; none if that is zero or not finite.
    virtual std::optional<int> exponent(const LinearMap<T>& map) = 0;

    // v_j+1 = 2^exponent map v_j orthonormalised against the earlier vectors, for j from `first` to `last` - 1.
    // Returns, for each j, the real part of the product of map v_j with v_j, and the norm of the remainder.
    virtual std::vector<double> extend(const LinearMap<T>& map, int first, int last, int exponent) = 0;

    // The first `to` vectors become combinations of the first `from`, with the factors q[c * from + j] of v_j in the
    // c-th; and v_from becomes the next one.
    virtual void restart(const Wide<T>* q, int from, int to) = 0;

    // Linear combinations of the vectors, with such factors, stored elsewhere on the device, one after the other.
    virtual void combine(const Wide<T>* q, int from, int count, T* to) = 0;

    // map v_place, elsewhere on the device.
    virtual void multiply(const LinearMap<T>& map, int place, T* to) = 0;
};

// The basis has at most `length` vectors, on the device of the memory. `inner` multiplies by the matrix of the inner
// product; without it, that is the plain one.
template <class T>
std::unique_ptr<KrylovBasis<T>> make_krylov_basis(index_t n, int length, std::shared_ptr<SolverMemory> memory,
                                                  RankSums ranks, std::shared_ptr<const LinearMap<T>> inner = {});

namespace gpu {

template <class T>
std::unique_ptr<KrylovBasis<T>> make_krylov_basis(index_t n, int length, std::shared_ptr<SolverMemory> memory,
                                                  RankSums ranks, std::shared_ptr<const LinearMap<T>> inner = {});

}  // namespace gpu

}  // namespace spmvgpu
