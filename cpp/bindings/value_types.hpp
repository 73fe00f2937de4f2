// Value types between C++ and Python: complex numbers, the types of NumPy arrays, and classes that have no value type
// in Python.
#pragma once

#include <pybind11/complex.h>
#include <pybind11/numpy.h>

#include <complex>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

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

namespace spmvgpu {

template <class T>
std::string value_name() {
    return (kIsComplex<T> ? "complex" : "float") + std::to_string(8 * sizeof(T));
}

template <class T>
T* at(std::uintptr_t address) {
    return reinterpret_cast<T*>(address);
}

// Calls call.operator()<T>() for the value type that is NumPy's dtype.
template <class Call>
auto with_value_type(const pybind11::dtype& dtype, Call&& call) {
#define SPMVGPU_CALL_IF_GIVEN(T) \
    if (dtype.num() == pybind11::dtype::of<T>().num()) return call.template operator()<T>();
    SPMVGPU_FOR_VALUE_TYPES(SPMVGPU_CALL_IF_GIVEN)
#undef SPMVGPU_CALL_IF_GIVEN
    throw pybind11::type_error("there are no matrices of " + std::string(pybind11::str(pybind11::handle(dtype))));
}

template <template <class> class Kind>
struct SharedOf {
    template <class T>
    using Type = std::shared_ptr<Kind<T>>;
};

// Matrices or vectors Kind<T> of any value type T, which are one class in Python.
template <template <class> class Kind>
struct AnyOf : OfAnyType<SharedOf<Kind>::template Type> {
    using AnyOf::variant::variant;

    template <class Call>
    decltype(auto) visit(Call&& call) const {
        return std::visit(std::forward<Call>(call), static_cast<const typename AnyOf::variant&>(*this));
    }

    // An argument that must have the value type T of its matrix.
    template <class T>
    const std::shared_ptr<Kind<T>>& of() const {
        if (const auto* const held = std::get_if<std::shared_ptr<Kind<T>>>(this)) return *held;
        const auto given = visit([]<class Other>(const std::shared_ptr<Kind<Other>>&) { return value_name<Other>(); });
        throw pybind11::type_error("value types differ: " + given + " was given, and what it goes with has " +
                                   value_name<T>());
    }
};

template <class Any, class Call, class Result, class First, class... Rest>
auto method(Call call, Result (Call::*)(First, Rest...) const) {
    return [call](const Any& any, Rest... rest) {
        return any.visit([&](const auto& held) {
            if constexpr (std::is_invocable_v<const Call&, decltype(*held), Rest...>) {
                return call(*held, std::forward<Rest>(rest)...);
            } else {
                return call(held, std::forward<Rest>(rest)...);
            }
        });
    };
}

// Makes a Python method of an AnyOf from a lambda []<class T>(const Kind<T>&, ...), or from one of a std::shared_ptr.
// The other arguments do not depend on T.
template <class Any, class Call>
auto method(Call call) {
    if constexpr (requires { &Call::operator(); }) {
        return method<Any>(call, &Call::operator());
    } else {
        return method<Any>(call, &Call::template operator()<double>);
    }
}

template <class Call, class Result, class... Arguments>
auto of_dtype(Call call, Result (Call::*)(Arguments...) const) {
    return [call](const pybind11::dtype& dtype, Arguments... arguments) {
        return with_value_type(
            dtype, [&]<class T>() { return call.template operator()<T>(std::forward<Arguments>(arguments)...); });
    };
}

// Makes a Python function of a dtype from a lambda []<class T>(...), whose arguments do not depend on T.
template <class Call>
auto of_dtype(Call call) {
    return of_dtype(call, &Call::template operator()<double>);
}

// A number from Python as one of type T; TypeError for a complex one that T does not hold.
template <class T>
T number_as(const std::complex<double>& given) {
    using R = Real<T>;
    if constexpr (kIsComplex<T>) {
        return {static_cast<R>(given.real()), static_cast<R>(given.imag())};
    } else {
        if (given.imag() != 0) throw pybind11::type_error("a complex number was given for " + value_name<T>());
        return static_cast<R>(given.real());
    }
}

// A NumPy array from Python as one of type `Typed`, without a copy; TypeError if it is not one.
template <class Typed>
Typed array_as(const pybind11::array& given) {
    if (!pybind11::isinstance<Typed>(given)) {
        throw pybind11::type_error("an array of " + std::string(pybind11::str(pybind11::handle(given.dtype()))) +
                                   " was given; it must be one of " + value_name<typename Typed::value_type>() +
                                   ", in C order where one is needed");
    }
    return pybind11::reinterpret_borrow<Typed>(given);
}

}  // namespace spmvgpu
