// THE list of value types: what is a template over the values of a matrix is compiled for these, and Python finds them
// all under the names that value_suffix() makes.
#pragma once

#include <string>

#include "core/complex.hpp"

// Expands MACRO(T) for every value type T.
#define SPMVGPU_FOR_VALUE_TYPES(MACRO) MACRO(float) MACRO(double) MACRO(Complex<float>) MACRO(Complex<double>)

namespace spmvgpu {

// Calls function.operator()<T>() for every value type T.
template <class Function>
void for_each_value_type(Function&& function) {
#define SPMVGPU_CALL(T) function.template operator()<T>();
    SPMVGPU_FOR_VALUE_TYPES(SPMVGPU_CALL)
#undef SPMVGPU_CALL
}

// As in MatrixF32 or MatrixC128: kind and bits, as NumPy counts them.
template <class T>
std::string value_suffix() {
    return std::string(1, kIsComplex<T> ? 'C' : 'F') + std::to_string(8 * sizeof(T));
}

}  // namespace spmvgpu
