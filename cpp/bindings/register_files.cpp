#include <pybind11/numpy.h>

#include "bindings/bindings.hpp"
#include "bindings/csr.hpp"
#include "core/matrix_market.hpp"

namespace py = pybind11;

namespace spmvgpu {

namespace {

template <class Index>
void register_reader(py::module_& module, const char* name) {
    using Reader = EntryReader<Index>;
    py::class_<Reader>(module, name, "The entries of a Matrix Market file, block by block.")
        .def(py::init([](int indices, int values, bool are_whole, std::int64_t rows, std::int64_t cols,
                         std::int64_t entries, bool rest_is_ignored, std::int64_t line) {
                 if (indices < 0 || indices > 2 || values < 0 || values > 2 || entries < 0) {
                     throw std::invalid_argument("there are no such lines");
                 }
                 return Reader({indices, values, are_whole, rows, cols, entries, rest_is_ignored}, line);
             }),
             py::kw_only(), py::arg("indices"), py::arg("values"), py::arg("are_whole"), py::arg("rows"),
             py::arg("cols"), py::arg("entries"), py::arg("rest_is_ignored"), py::arg("line"))
        .def(
            "read",
            [](Reader& reader, const py::buffer& text) {
                const py::buffer_info info = text.request();
                if (info.ndim != 1 || info.itemsize != 1 || info.strides[0] != 1) {
                    throw std::invalid_argument("text must be bytes");
                }
                const auto* const begin = static_cast<const char*>(info.ptr);
                const GilRelease release;
                reader.read(begin, begin + info.size);
            },
            py::arg("text"), "Reads whole lines; ValueError says which is wrong.")
        .def_property_readonly("entries", &Reader::entries)
        .def_property_readonly("has_below", &Reader::has_below)
        .def_property_readonly("has_above", &Reader::has_above)
        .def(
            "arrays",
            [](const Reader& reader) {
                return py::make_tuple(hand_over(reader.row()), hand_over(reader.col()), hand_over(reader.values()));
            },
            "Rows and columns, from 0, and the numbers of the values.");
}

}  // namespace

void register_files(py::module_& module) {
    register_reader<std::int32_t>(module, "EntryReader");
    register_reader<std::int64_t>(module, "WideEntryReader");
}

}  // namespace spmvgpu
