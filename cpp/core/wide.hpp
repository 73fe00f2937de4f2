// Types of sums over vectors, which are wider than the elements.
#pragma once

#include "core/complex.hpp"

namespace spmvgpu {

// The type of sums over elements of type T: double for float vectors too, whose squares neither over- nor underflow
// then. For a complex T it is the complex type of doubles.
template <class T>
struct WideOf {
    using Type = double;
};
template <class R>
struct WideOf<Complex<R>> {
    using Type = Complex<double>;
};
template <class T>
using Wide = typename WideOf<T>::Type;

template <class T>
constexpr T conjugate(T value) {
    if constexpr (kIsComplex<T>) return {value.real, -value.imag};
    return value;
}

// The summand of the inner product of a and b, conjugated in a.
template <class T>
constexpr Wide<T> dot(T a, T b) {
    return conjugate(Wide<T>(a)) * Wide<T>(b);
}

}  // namespace spmvgpu
