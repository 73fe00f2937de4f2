// The steps of a conversion to single precision and back, for CPUs and for GPUs.
#pragma once

#include <cmath>

#include "core/passes/bits.hpp"
#include "solvers/preconditioners/converted.hpp"

namespace spmvgpu {

// The exponent of zeros: every byte is 0x80, which makes it less than any other exponent.
constexpr int kNoExponent = static_cast<int>(0x80808080u);

SPMVGPU_IN_BODY double largest_part(double value) { return ::fabs(value); }
SPMVGPU_IN_BODY double largest_part(Complex<double> value) { return ::fmax(::fabs(value.real), ::fabs(value.imag)); }

SPMVGPU_IN_BODY int exponent_of(double largest) { return largest > 0 ? ::ilogb(largest) : kNoExponent; }

SPMVGPU_IN_BODY float single_of(double value, int exponent) {
    return exponent == kNoExponent ? static_cast<float>(value) : static_cast<float>(::scalbn(value, -exponent));
}
SPMVGPU_IN_BODY Complex<float> single_of(Complex<double> value, int exponent) {
    return {single_of(value.real, exponent), single_of(value.imag, exponent)};
}

SPMVGPU_IN_BODY double double_of(float value, int exponent) {
    return exponent == kNoExponent ? double(value) : ::scalbn(double(value), exponent);
}
SPMVGPU_IN_BODY Complex<double> double_of(Complex<float> value, int exponent) {
    return {double_of(value.real, exponent), double_of(value.imag, exponent)};
}

}  // namespace spmvgpu
