#include <pybind11/stl.h>

#include <memory>
#include <tuple>
#include <vector>

#include "bindings/bindings.hpp"
#include "bindings/csr.hpp"
#include "bindings/index_map.hpp"
#include "core/parallel.hpp"
#include "multi/multi_device_matrix.hpp"
#include "multi/streamed_matrix.hpp"

namespace py = pybind11;

namespace spmvgpu {

namespace {

template <class T>
void register_vector(py::module_& module) {
    using V = MultiDeviceVector<T>;
    py::class_<V>(module, ("MultiDeviceVector" + value_suffix<T>()).c_str(), "A vector in pieces on several devices.")
        .def(
            "assign",
            [](V& vector, const Dense<T>& host) {
                if (host.size() != vector.size()) throw std::invalid_argument("vector of wrong length");
                const GilRelease release;
                vector.assign(host.data());
            },
            py::arg("host").noconvert(), "Copy a NumPy array into the pieces.")
        .def(
            "collect",
            [](const V& vector) {
                py::array_t<T> host(vector.size());
                T* const to = host.mutable_data();
                const GilRelease release;
                vector.collect(to);
                return host;
            },
            "A NumPy array put together from the pieces.")
        .def_property_readonly("size", &V::size)
        .def_property_readonly("nbytes", &V::nbytes);
}

template <class T>
void register_multi_device_matrix(py::module_& module) {
    using M = MultiDeviceMatrix<T>;
    using GivenPart = std::tuple<std::shared_ptr<AnyMatrix<T>>, GivenIndexMap, index_t, index_t, std::size_t>;
    py::class_<M, AnyMatrix<T>, std::shared_ptr<M>>(module, ("MultiDeviceMatrix" + value_suffix<T>()).c_str(),
                                                    "One matrix over several devices.")
        .def(py::init([](index_t rows, index_t cols, const std::vector<GivenPart>& given) {
                 std::vector<DevicePart<T>> parts;
                 IndexMapReader maps;
                 for (const auto& [matrix, part_rows, col_begin, col_end, interior_parts] : given) {
                     parts.push_back({matrix, maps.read(part_rows), col_begin, col_end, interior_parts});
                 }
                 const GilRelease release;
                 return std::make_shared<M>(rows, cols, std::move(parts));
             }),
             py::arg("rows"), py::arg("cols"), py::arg("parts"))
        .def_property_readonly(
            "parts",
            [](const M& matrix) {
                std::vector<GivenPart> parts;
                for (const auto& part : matrix.parts()) {
                    parts.emplace_back(std::const_pointer_cast<AnyMatrix<T>>(part.matrix), to_python(part.rows),
                                       part.col_begin, part.col_end, part.interior_parts);
                }
                return parts;
            },
            "(matrix, rows, first column, end of the columns, interior parts) of every part.")
        .def_property_readonly("solver_pieces", py::cpp_function(&M::solver_pieces, py::call_guard<GilRelease>()),
                               "In how many pieces solvers keep vectors on the devices; 0: they do not.")
        .def("make_vector", &M::make_vector, py::call_guard<GilRelease>(),
             "An uninitialised vector in pieces on the devices.")
        .def(
            "multiply_pieces",
            [](const M& matrix, T alpha, MultiDeviceVector<T>& x, T beta, MultiDeviceVector<T>& y) {
                const ThreadLimit limit(matrix.max_threads);
                matrix.multiply(alpha, x, beta, y);
            },
            py::arg("alpha"), py::arg("x"), py::arg("beta"), py::arg("y"), py::call_guard<GilRelease>(),
            "Product of vectors that stay on the devices.")
        .def("synchronize", &M::synchronize, py::call_guard<GilRelease>(), "Wait for the products of such vectors.");
}

template <class T>
void register_streamed(py::module_& module) {
    using M = StreamedMatrix<T>;
    py::class_<M, AnyMatrix<T>, std::shared_ptr<M>>(module, ("StreamedMatrix" + value_suffix<T>()).c_str(),
                                                    "A matrix in host memory that a GPU multiplies.")
        .def(py::init([](const Dense<index_t>& indptr, const Dense<index_t>& indices, const Dense<T>& data,
                         index_t cols, int ordinal, std::size_t chunk_bytes) {
                 const CsrMatrix<T> csr = csr_view<T>(indptr, indices, data, cols);
                 const GilRelease release;
                 return std::make_shared<M>(csr, Device{ordinal}, chunk_bytes);
             }),
             py::arg("indptr").noconvert(), py::arg("indices").noconvert(), py::arg("data").noconvert(),
             py::arg("cols"), py::arg("ordinal"), py::arg("chunk_bytes"))
        .def("to_csr", &to_csr_arrays<T, M>, "(data, indices, indptr) as new NumPy arrays.");
}

}  // namespace

void register_multi_device(py::module_& module) {
    for_each_value_type([&]<class T>() {
        register_vector<T>(module);
        register_streamed<T>(module);
        register_multi_device_matrix<T>(module);
    });
}

}  // namespace spmvgpu
