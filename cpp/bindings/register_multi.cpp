#include <pybind11/stl.h>

#include <complex>
#include <memory>
#include <stdexcept>
#include <tuple>
#include <variant>
#include <vector>

#include "bindings/bindings.hpp"
#include "bindings/csr.hpp"
#include "bindings/index_map.hpp"
#include "bindings/matrices.hpp"
#include "multi/multi_device_matrix.hpp"
#include "multi/parted_matrix.hpp"
#include "multi/streamed_matrix.hpp"

namespace py = pybind11;

namespace spmvgpu {

namespace {

using Streamed = MatricesOf<StreamedMatrix>;
using Parted = MatricesOf<PartedMatrix>;
using MultiDevice = MatricesOf<MultiDeviceMatrix>;
using AnyVector = AnyOf<MultiDeviceVector>;
using PartMatrix = std::variant<MatricesOf<Matrix>, Parted, Streamed>;

template <class T>
PartMatrix stored(const std::shared_ptr<const AnyMatrix<T>>& part) {
    const auto matrix = std::const_pointer_cast<AnyMatrix<T>>(part);
    if (auto in_one_format = std::dynamic_pointer_cast<Matrix<T>>(matrix)) return MatricesOf<Matrix>(in_one_format);
    if (auto parted = std::dynamic_pointer_cast<PartedMatrix<T>>(matrix)) return Parted(parted);
    if (auto streamed = std::dynamic_pointer_cast<StreamedMatrix<T>>(matrix)) return Streamed(streamed);
    throw std::logic_error("a part is a matrix over several devices");
}

// Calls call() with the matrix of the first part, which says the value type.
template <class Given, class Call>
auto with_first(const std::vector<Given>& parts, Call&& call) {
    if (parts.empty()) throw std::invalid_argument("a matrix of parts needs one at least");
    return std::get<0>(parts.front()).visit(std::forward<Call>(call));
}

void register_streamed(py::module_& module) {
    py::class_<Streamed, Matrices>(module, "StreamedMatrix", "A matrix in host memory that a GPU multiplies.")
        .def(py::init([](const Dense<index_t>& indptr, const Dense<index_t>& indices, const py::array& data,
                         index_t cols, int ordinal, std::size_t chunk_bytes) {
                 return with_value_type(data.dtype(), [&]<class T>() -> Streamed {
                     const auto csr = csr_view(indptr, indices, array_as<Dense<T>>(data), cols);
                     const GilRelease release;
                     return std::make_shared<StreamedMatrix<T>>(csr, Device{ordinal}, chunk_bytes);
                 });
             }),
             py::arg("indptr").noconvert(), py::arg("indices").noconvert(), py::arg("data").noconvert(),
             py::arg("cols"), py::arg("ordinal"), py::arg("chunk_bytes"))
        .def("to_csr", method<Streamed>([]<class T>(const StreamedMatrix<T>& matrix) { return to_csr_arrays(matrix); }),
             "(data, indices, indptr) as new NumPy arrays.");
}

void register_parted(py::module_& module) {
    using PartTuple = std::tuple<Matrices, IndexMapArgument, IndexMapArgument>;
    py::class_<Parted, Matrices> matrices(module, "PartedMatrix", "A matrix on one device that is made of parts.");
    matrices
        .def(py::init([](index_t rows, index_t cols, const std::vector<PartTuple>& given) {
                 return with_first(given, [&]<class T>(const std::shared_ptr<AnyMatrix<T>>&) -> Parted {
                     std::vector<typename PartedMatrix<T>::Part> parts;
                     IndexMapReader maps;
                     for (const auto& [matrix, part_rows, part_cols] : given) {
                         parts.push_back({matrix.template of<T>(), maps.read(part_rows), maps.read(part_cols)});
                     }
                     const GilRelease release;
                     return std::make_shared<PartedMatrix<T>>(rows, cols, std::move(parts));
                 });
             }),
             py::arg("rows"), py::arg("cols"), py::arg("parts"))
        .def(py::init(method<Matrices>(
                 []<class T>(const std::shared_ptr<AnyMatrix<T>>& matrix, const Permutation& permutation) -> Parted {
                     return std::make_shared<PartedMatrix<T>>(matrix, permutation);
                 })),
             py::arg("matrix"), py::arg("permutation"), py::call_guard<GilRelease>(),
             "The square matrix whose rows and columns `matrix` has in another order.")
        .def_property_readonly("parts", method<Parted>([]<class T>(const PartedMatrix<T>& matrix) {
                                   std::vector<std::tuple<PartMatrix, IndexMapArgument, IndexMapArgument>> parts;
                                   for (const auto& part : matrix.parts()) {
                                       parts.emplace_back(stored(part.matrix), to_python(part.rows),
                                                          to_python(part.cols));
                                   }
                                   return parts;
                               }),
                               "(matrix, rows, columns) of every part.")
        .def_property_readonly("is_reordered", method<Parted>([]<class T>(const PartedMatrix<T>& matrix) {
                                   return matrix.is_reordered();
                               }))
        .def_property_readonly("value_map_bytes", method<Parted>([]<class T>(const PartedMatrix<T>& matrix) {
                                   return matrix.value_map_bytes();
                               }));
    def_update_values(matrices);
}

void register_vector(py::module_& module) {
    py::class_<AnyVector>(module, "MultiDeviceVector", "A vector in pieces on several devices.")
        .def("assign", method<AnyVector>([]<class T>(MultiDeviceVector<T>& vector, const py::array& given) {
                 const auto host = array_as<Dense<T>>(given);
                 if (host.size() != vector.size()) throw std::invalid_argument("vector of wrong length");
                 const GilRelease release;
                 vector.assign(host.data());
             }),
             py::arg("host").noconvert(), "Copy a NumPy array into the pieces.")
        .def("collect", method<AnyVector>([]<class T>(const MultiDeviceVector<T>& vector) -> py::array {
                 py::array_t<T> host(vector.size());
                 T* const to = host.mutable_data();
                 const GilRelease release;
                 vector.collect(to);
                 return host;
             }),
             "A NumPy array put together from the pieces.")
        .def_property_readonly(
            "size", method<AnyVector>([]<class T>(const MultiDeviceVector<T>& vector) { return vector.size(); }))
        .def_property_readonly(
            "nbytes", method<AnyVector>([]<class T>(const MultiDeviceVector<T>& vector) { return vector.nbytes(); }));
}

void register_multi_device(py::module_& module) {
    using PartTuple = std::tuple<Matrices, IndexMapArgument, index_t, index_t, std::size_t>;
    py::class_<MultiDevice, Matrices>(module, "MultiDeviceMatrix", "One matrix over several devices.")
        .def(py::init([](index_t rows, index_t cols, const std::vector<PartTuple>& given) {
                 return with_first(given, [&]<class T>(const std::shared_ptr<AnyMatrix<T>>&) -> MultiDevice {
                     std::vector<DevicePart<T>> parts;
                     IndexMapReader maps;
                     for (const auto& [matrix, part_rows, col_begin, col_end, interior_parts] : given) {
                         parts.push_back(
                             {matrix.template of<T>(), maps.read(part_rows), col_begin, col_end, interior_parts});
                     }
                     const GilRelease release;
                     return std::make_shared<MultiDeviceMatrix<T>>(rows, cols, std::move(parts));
                 });
             }),
             py::arg("rows"), py::arg("cols"), py::arg("parts"))
        .def_property_readonly(
            "parts", method<MultiDevice>([]<class T>(const MultiDeviceMatrix<T>& matrix) {
                std::vector<std::tuple<PartMatrix, IndexMapArgument, index_t, index_t, std::size_t>> parts;
                for (const auto& part : matrix.parts()) {
                    parts.emplace_back(stored(part.matrix), to_python(part.rows), part.col_begin, part.col_end,
                                       part.interior_parts);
                }
                return parts;
            }),
            "(matrix, rows, first column, end of the columns, interior parts) of every part.")
        .def_property_readonly("solver_pieces",
                               py::cpp_function(method<MultiDevice>([]<class T>(const MultiDeviceMatrix<T>& matrix) {
                                                    return matrix.solver_pieces();
                                                }),
                                                py::call_guard<GilRelease>()),
                               "In how many pieces solvers keep vectors on the devices; 0: they do not.")
        .def("make_vector", method<MultiDevice>([]<class T>(const MultiDeviceMatrix<T>& matrix) {
                 return AnyVector(matrix.make_vector());
             }),
             py::call_guard<GilRelease>(), "An uninitialised vector in pieces on the devices.")
        .def("multiply_pieces",
             method<MultiDevice>([]<class T>(const MultiDeviceMatrix<T>& matrix, const std::complex<double>& alpha,
                                             const AnyVector& x, const std::complex<double>& beta, const AnyVector& y) {
                 const ThreadLimit limit(matrix.max_threads);
                 matrix.multiply(number_as<T>(alpha), *x.of<T>(), number_as<T>(beta), *y.of<T>());
             }),
             py::arg("alpha"), py::arg("x"), py::arg("beta"), py::arg("y"), py::call_guard<GilRelease>(),
             "Product of vectors that stay on the devices.")
        .def("synchronize",
             method<MultiDevice>([]<class T>(const MultiDeviceMatrix<T>& matrix) { matrix.synchronize(); }),
             py::call_guard<GilRelease>(), "Wait for the products of such vectors.");
}

}  // namespace

void register_multi(py::module_& module) {
    register_streamed(module);
    register_parted(module);
    register_vector(module);
    register_multi_device(module);
}

}  // namespace spmvgpu
