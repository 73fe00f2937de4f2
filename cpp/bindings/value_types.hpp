// Complex values between C++ and Python: numbers, and the types of NumPy arrays.
#pragma once

#include <pybind11/complex.h>
#include <pybind11/numpy.h>

#include "core/value_types.hpp"

namespace pybind11::detail {

template <class Real>
struct npy_format_descriptor<spmvgpu::Complex<Real>> : npy_format_descriptor<std::complex<Real>> {};

template <class Real>
class type_caster<spmvgpu::Complex<Real>> {
public:
    PYBIND11_TYPE_CASTER(spmvgpu::Complex<Real>, const_name("complex"));

    bool load(handle source, bool convert) {
        type_caster<std::complex<Real>> number;
        if (!number.load(source, convert)) return false;
        const auto given = static_cast<std::complex<Real>>(number);
        value = {given.real(), given.imag()};
        return true;
    }

    static handle cast(const spmvgpu::Complex<Real>& number, return_value_policy, handle) {
        return PyComplex_FromDoubles(number.real, number.imag);
    }
};

}  // namespace pybind11::detail
