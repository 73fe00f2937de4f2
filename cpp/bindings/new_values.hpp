// update_values() as Python calls it, of the kinds of matrices that take new values.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>

#include "bindings/csr.hpp"
#include "bindings/gil.hpp"
#include "core/parallel.hpp"

namespace spmvgpu {

template <class T, class Class>
void def_update_values(Class& matrices) {
    namespace py = pybind11;
    using M = typename Class::type;
    matrices.def(
        "update_values",
        [](M& matrix, const Dense<T>& values) {
            const auto given = Array<T>::view(values.data(), values.size());
            const GilRelease release;
            const ThreadLimit limit(matrix.max_threads);
            matrix.update_values(given);
        },
        py::arg("values").noconvert(), "Replaces the values by others in CSR order, in host memory.");
    matrices.def(
        "update_values_at",
        [](M& matrix, std::uintptr_t values, std::size_t count) {
            matrix.update_values(Array<T>::view(reinterpret_cast<const T*>(values), count, matrix.device()));
        },
        py::arg("values"), py::arg("count"), py::call_guard<GilRelease>(),
        "The same with values at an address on the matrix's own device.");
}

}  // namespace spmvgpu
