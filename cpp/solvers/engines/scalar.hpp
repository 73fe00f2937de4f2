// Numbers of solvers: sums and quotients are wider than the elements of vectors.
#pragma once

#include <cmath>
#include <limits>

#include "core/wide.hpp"

// Marks functions that lambdas of solvers call and that are not constexpr.
#ifdef __CUDACC__
#define SPMVGPU_SCALAR __host__ __device__ inline
#else
#define SPMVGPU_SCALAR inline
#endif

namespace spmvgpu {

constexpr double real_of(double value) { return value; }
constexpr double real_of(Complex<double> value) { return value.real; }
constexpr double squared_size(double value) { return value * value; }
constexpr double squared_size(Complex<double> value) { return value.real * value.real + value.imag * value.imag; }

// The summand of the squared norm of a.
template <class T>
constexpr Wide<T> square(T a) {
    return squared_size(Wide<T>(a));
}

SPMVGPU_SCALAR double root(double value) { return ::sqrt(value); }
SPMVGPU_SCALAR double size_of(double value) { return ::fabs(value); }
SPMVGPU_SCALAR double size_of(Complex<double> value) { return ::hypot(value.real, value.imag); }

// A scalar factor of vectors: as wide as sums are, and narrowed for the product.
template <class W>
struct Factor {
    W value{};

    constexpr Factor() = default;
    constexpr Factor(W value) : value(value) {}
    constexpr operator W() const { return value; }

    template <class T>
    friend constexpr T operator*(Factor factor, T element) {
        if constexpr (kIsComplex<W>) {
            return T(factor.value) * element;
        } else {
            return Real<T>(factor.value) * element;
        }
    }
};

// The distance from 1 to the next number of T's real type.
template <class T>
constexpr double epsilon() {
    return std::numeric_limits<Real<T>>::epsilon();
}

constexpr bool finite(double value) {
    constexpr double kLargest = std::numeric_limits<double>::max();
    return value >= -kLargest && value <= kLargest;
}

}  // namespace spmvgpu
