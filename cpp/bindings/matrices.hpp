// Matrices as Python has them: a class for each kind, whatever the value type.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "bindings/csr.hpp"
#include "bindings/gil.hpp"
#include "bindings/value_types.hpp"
#include "core/parallel.hpp"
#include "matrix/any_matrix.hpp"

namespace spmvgpu {

using Matrices = AnyOf<AnyMatrix>;

template <template <class> class Kind>
struct MatricesOf : Matrices {
    template <class T>
    MatricesOf(std::shared_ptr<Kind<T>> matrix) : Matrices(std::shared_ptr<AnyMatrix<T>>(std::move(matrix))) {}

    template <class Call>
    decltype(auto) visit(Call&& call) const {
        return Matrices::visit([&]<class T>(const std::shared_ptr<AnyMatrix<T>>& held) -> decltype(auto) {
            return call(std::static_pointer_cast<Kind<T>>(held));
        });
    }
};

// Classes of matrices that take new values.
template <template <class> class Kind>
void def_update_values(pybind11::class_<MatricesOf<Kind>, Matrices>& matrices) {
    namespace py = pybind11;
    matrices.def("update_values", method<MatricesOf<Kind>>([]<class T>(Kind<T>& matrix, const py::array& given) {
                     const auto values = view_of(array_as<Dense<T>>(given));
                     const GilRelease release;
                     const ThreadLimit limit(matrix.max_threads);
                     matrix.update_values(values);
                 }),
                 py::arg("values").noconvert(), "Replaces the values by others in CSR order, in host memory.");
    matrices.def("update_values_at",
                 method<MatricesOf<Kind>>([]<class T>(Kind<T>& matrix, std::uintptr_t values, std::size_t count) {
                     matrix.update_values(Array<T>::view(at<T>(values), count, matrix.device()));
                 }),
                 py::arg("values"), py::arg("count"), py::call_guard<GilRelease>(),
                 "The same with values at an address on the matrix's own device.");
}

}  // namespace spmvgpu
