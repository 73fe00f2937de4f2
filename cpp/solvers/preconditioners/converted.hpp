// A map in single precision for vectors in double precision: a preconditioner need not be exact, and so moves half of
// the bytes.
//
// A vector is first divided by the power of two in its largest element, so that small residuals keep their digits, and
// the result is multiplied by it.
#pragma once

#include <memory>
#include <type_traits>

#include "solvers/system/linear_map.hpp"
#include "solvers/system/memory.hpp"

namespace spmvgpu {

template <class T>
using Single = std::conditional_t<kIsComplex<T>, Complex<float>, float>;

// Memory of a conversion on the device: columns in single precision, and the exponent of the largest element of each.
template <class T>
struct SingleColumns {
    Single<T>*x = nullptr, *y = nullptr;
    int* exponents = nullptr;
};

// T is in double precision.
template <class T>
class ConvertedMap : public LinearMap<T> {
public:
    // Vectors have length n and at most this many columns, on the device of the memory. Only one solve may use the map
    // at a time.
    ConvertedMap(std::shared_ptr<const LinearMap<Single<T>>> map, index_t n, index_t columns,
                 std::shared_ptr<SolverMemory> memory)
        : map_(std::move(map)),
          memory_(std::move(memory)),
          lease_(*memory_, memory_->device(),
                 [&](Arena& arena) {
                     const std::size_t size = std::size_t(n) * columns;
                     single_ = {arena.take<Single<T>>(size), arena.take<Single<T>>(size), arena.take<int>(columns)};
                 }),
          n_(n) {}

    void apply(const T* x, T* y, Stream stream) const override { apply_columns(x, y, n_, 1, stream); }
    void apply_columns(const T* x, T* y, index_t n, index_t columns, Stream stream) const override;
    bool can_be_recorded() const override { return map_->can_be_recorded(); }

private:
    std::shared_ptr<const LinearMap<Single<T>>> map_;
    std::shared_ptr<SolverMemory> memory_;
    SingleColumns<T> single_;
    SolverMemory::Lease lease_;
    index_t n_;
};

namespace gpu {

// To single.x and single.exponents, and back from single.y; queued on the stream.
template <class T>
void to_single(const T* x, const SingleColumns<T>& single, index_t n, index_t columns, int ordinal, Stream stream);
template <class T>
void from_single(const SingleColumns<T>& single, T* y, index_t n, index_t columns, int ordinal, Stream stream);

}  // namespace gpu

}  // namespace spmvgpu
