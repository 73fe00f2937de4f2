#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <map>
#include <memory>
#include <numeric>
#include <vector>

#include "bindings/bindings.hpp"
#include "exec/parted_matrix.hpp"

namespace py = pybind11;

namespace spmvgpu {

namespace {

using Indices = py::array_t<index_t, py::array::c_style>;

// Places by the NumPy array they come from, so that parts that share one share its copy.
class PlacesReader {
public:
    Places read(const Indices& array) {
        const auto [found, is_new] = known_.try_emplace(array.ptr());
        if (is_new) found->second = Places::from({array.data(), array.data() + array.size()});
        return found->second;
    }

private:
    std::map<PyObject*, Places> known_;
};

py::array to_numpy(const Places& places, index_t count) {
    py::array_t<index_t> array(count);
    if (places.map.size() > 0) {
        copy_bytes(array.mutable_data(), {}, places.map.data(), places.map.device(), places.map.bytes());
    } else {
        std::iota(array.mutable_data(), array.mutable_data() + count, places.first);
    }
    return array;
}

template <class T>
void register_type(py::module_& module, const char* name) {
    using M = PartedMatrix<T>;
    using GivenPart = std::tuple<std::shared_ptr<AnyMatrix<T>>, Indices, Indices>;
    py::class_<M, AnyMatrix<T>, std::shared_ptr<M>>(module, name, "A matrix on one device that is made of parts.")
        .def(py::init([](index_t rows, index_t cols, const std::vector<GivenPart>& given) {
                 std::vector<typename M::Part> parts;
                 PlacesReader places;
                 for (const auto& [matrix, part_rows, part_cols] : given) {
                     parts.push_back({matrix, places.read(part_rows), places.read(part_cols)});
                 }
                 const py::gil_scoped_release release;
                 return std::make_shared<M>(rows, cols, std::move(parts));
             }),
             py::arg("rows"), py::arg("cols"), py::arg("parts"))
        .def_property_readonly(
            "parts",
            [](const M& matrix) {
                py::list parts;
                for (const auto& part : matrix.parts()) {
                    parts.append(py::make_tuple(std::const_pointer_cast<AnyMatrix<T>>(part.matrix),
                                                to_numpy(part.rows, part.matrix->rows()),
                                                to_numpy(part.cols, part.matrix->cols())));
                }
                return parts;
            },
            "(matrix, rows, columns) of every part.");
}

}  // namespace

void register_parts(py::module_& module) {
    register_type<float>(module, "PartedMatrixF32");
    register_type<double>(module, "PartedMatrixF64");
}

}  // namespace spmvgpu
