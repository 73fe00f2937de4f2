// THE list of value types: templates over the values of a matrix are compiled for these.
#pragma once

#include <variant>

#include "core/complex.hpp"

#define SPMVGPU_FOR_REAL_TYPES(MACRO) MACRO(float) MACRO(double)
#define SPMVGPU_FOR_COMPLEX_TYPES(MACRO) MACRO(Complex<float>) MACRO(Complex<double>)
#define SPMVGPU_FOR_VALUE_TYPES(MACRO) SPMVGPU_FOR_REAL_TYPES(MACRO) SPMVGPU_FOR_COMPLEX_TYPES(MACRO)

// Pairs of different value types between which values are converted: a complex number does not become real.
#define SPMVGPU_FOR_CONVERSIONS(MACRO)     \
    MACRO(float, double)                   \
    MACRO(float, Complex<float>)           \
    MACRO(float, Complex<double>)          \
    MACRO(double, float)                   \
    MACRO(double, Complex<float>)          \
    MACRO(double, Complex<double>)         \
    MACRO(Complex<float>, Complex<double>) \
    MACRO(Complex<double>, Complex<float>)

namespace spmvgpu {

// A variant has Of<T> for one of the value types.
template <template <class> class Of>
using OfAnyType = std::variant<Of<float>, Of<double>, Of<Complex<float>>, Of<Complex<double>>>;

}  // namespace spmvgpu
