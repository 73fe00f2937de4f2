// THE list of value types: templates over the values of a matrix are compiled for these.
#pragma once

#include "core/complex.hpp"

#define SPMVGPU_FOR_VALUE_TYPES(MACRO) MACRO(float) MACRO(double) MACRO(Complex<float>) MACRO(Complex<double>)
