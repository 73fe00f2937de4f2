#include <pybind11/stl.h>

#include <memory>
#include <tuple>
#include <vector>

#include "bindings/bindings.hpp"
#include "bindings/csr.hpp"
#include "bindings/index_map.hpp"
#include "bindings/new_values.hpp"
#include "bindings/value_types.hpp"
#include "multi/parted_matrix.hpp"

namespace py = pybind11;

namespace spmvgpu {

namespace {

template <class T>
void register_parted_type(py::module_& module) {
    using M = PartedMatrix<T>;
    using GivenPart = std::tuple<std::shared_ptr<AnyMatrix<T>>, GivenIndexMap, GivenIndexMap>;
    auto matrices =
        py::class_<M, AnyMatrix<T>, std::shared_ptr<M>>(module, ("PartedMatrix" + value_suffix<T>()).c_str(),
                                                        "A matrix on one device that is made of parts.")
            .def(py::init([](index_t rows, index_t cols, const std::vector<GivenPart>& given) {
                     std::vector<typename M::Part> parts;
                     IndexMapReader maps;
                     for (const auto& [matrix, part_rows, part_cols] : given) {
                         parts.push_back({matrix, maps.read(part_rows), maps.read(part_cols)});
                     }
                     const GilRelease release;
                     return std::make_shared<M>(rows, cols, std::move(parts));
                 }),
                 py::arg("rows"), py::arg("cols"), py::arg("parts"))
            .def(py::init<std::shared_ptr<AnyMatrix<T>>, const Permutation&>(), py::arg("matrix"),
                 py::arg("permutation"), py::call_guard<GilRelease>(),
                 "The square matrix whose rows and columns `matrix` has in another order.")
            .def_property_readonly(
                "parts",
                [](const M& matrix) {
                    std::vector<GivenPart> parts;
                    for (const auto& part : matrix.parts()) {
                        parts.emplace_back(std::const_pointer_cast<AnyMatrix<T>>(part.matrix), to_python(part.rows),
                                           to_python(part.cols));
                    }
                    return parts;
                },
                "(matrix, rows, columns) of every part.")
            .def_property_readonly("is_permuted", &M::is_permuted)
            .def_property_readonly("value_map_bytes", &M::value_map_bytes);
    def_update_values<T>(matrices);
}

}  // namespace

void register_parts(py::module_& module) {
    for_each_value_type([&]<class T>() { register_parted_type<T>(module); });
}

}  // namespace spmvgpu
