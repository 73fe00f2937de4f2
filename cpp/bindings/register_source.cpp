#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>

#include "bindings/bindings.hpp"
#include "bindings/csr.hpp"
#include "bindings/features.hpp"
#include "bindings/plans.hpp"
#include "bindings/value_types.hpp"
#include "matrix/planned_source.hpp"

namespace py = pybind11;

namespace spmvgpu {

namespace {

// A source of matrices from arrays at addresses on a device, whose contents nobody has checked.
template <class T>
std::shared_ptr<PlannedSource<T>> source_at(std::uintptr_t indptr, std::uintptr_t indices, std::uintptr_t data,
                                            index_t rows, index_t cols, index_t nnz, int ordinal) {
    const Device device{ordinal};
    const CsrMatrix<T> csr{
        rows,
        cols,
        nnz,
        Array<index_t>::view(reinterpret_cast<const index_t*>(indptr), rows + std::size_t(1), device),
        Array<index_t>::view(reinterpret_cast<const index_t*>(indices), nnz, device),
        Array<T>::view(reinterpret_cast<const T*>(data), nnz, device)};
    return std::make_shared<PlannedSource<T>>(csr, device);
}

template <class T>
Features features_of(const CsrSource<T>& source) {
    const AnyCsr csr = any_csr(source.csr());
    if constexpr (kHasCuda) {
        if (source.device().is_gpu()) return extract_features_on_gpu(csr, source.device().ordinal);
    }
    return extract_features(csr);
}

template <class T>
void register_source_of(py::module_& module) {
    using S = PlannedSource<T>;
    py::class_<S, std::shared_ptr<S>>(module, ("CsrSource" + value_suffix<T>()).c_str(),
                                      "A matrix in CSR on a device, of which others are made there.")
        .def(py::init([](const Dense<index_t>& indptr, const Dense<index_t>& indices, const Dense<T>& data,
                         index_t cols, int ordinal) {
                 const CsrMatrix<T> csr = csr_view<T>(indptr, indices, data, cols);
                 const GilRelease release;
                 return std::make_shared<S>(csr, Device{ordinal});
             }),
             py::arg("indptr").noconvert(), py::arg("indices").noconvert(), py::arg("data").noconvert(),
             py::arg("cols"), py::arg("ordinal"), "Of arrays in host memory, which cross the bus once.")
        .def_static("at", &source_at<T>, py::arg("indptr"), py::arg("indices"), py::arg("data"), py::arg("rows"),
                    py::arg("cols"), py::arg("nnz"), py::arg("ordinal"), py::call_guard<GilRelease>(),
                    "Of arrays at addresses on the device, which are copied there.")
        .def("is_canonical", &S::is_canonical, py::call_guard<GilRelease>(),
             "Whether rows are sorted and without duplicates, and no index is out of range. Of arrays that nobody has "
             "checked, to be asked first.")
        .def(
            "plan",
            [](S& source, const std::string& format, const Options& options, std::optional<int> processors) {
                const GilRelease release;
                return source.plan(format, options, processors ? *processors : target_of(source.device()).processors);
            },
            py::arg("format"), py::arg("options"), py::arg("processors") = py::none(),
            "What a format would do on the device, as Matrix.plan; kept for build().")
        .def("build", &S::build, py::arg("format"), py::arg("options"), py::call_guard<GilRelease>(),
             "The matrix in a format.")
        .def(
            "features",
            [](const S& source) {
                Features found;
                {
                    const GilRelease release;
                    found = features_of(source);
                }
                return to_dict(found);
            },
            "What the performance model wants to know about the matrix.")
        .def(
            "transposed", [](const S& source) { return std::make_shared<S>(source.transposed(), source.device()); },
            py::call_guard<GilRelease>(), "A source of the transposed matrix, on the same device.")
        .def("clustering", &S::clustering, py::call_guard<GilRelease>(),
             "What fraction of the columns of a row's neighbours repeat; of a square matrix, from a sample.")
        .def(
            "by_clusters",
            [](const S& source) {
                typename S::Reordered found;
                {
                    const GilRelease release;
                    found = source.by_clusters();
                }
                return py::make_tuple(found.permutation, std::make_shared<S>(found.csr, source.device()));
            },
            "(permutation, source): a square matrix with rows and columns in an order by clusters.")
        .def(
            "sample",
            [](const S& source, std::int64_t row_step, std::int64_t entry_step) {
                typename S::Sample sample;
                {
                    const GilRelease release;
                    sample = source.sample(row_step, entry_step);
                }
                return py::make_tuple(hand_over(sample.row_offsets), hand_over(sample.col_indices));
            },
            py::arg("row_step"), py::arg("entry_step"),
            "Every so many of the row offsets and of the column indices, as NumPy arrays.")
        .def(
            "to_csr",
            [](const S& source) {
                CsrMatrix<T> csr;
                {
                    const GilRelease release;
                    csr = source.to_host();
                }
                return py::make_tuple(to_numpy(csr.values), to_numpy(csr.col_indices), to_numpy(csr.row_offsets));
            },
            "(data, indices, indptr) as new NumPy arrays.")
        .def_property_readonly("rows", [](const S& source) { return source.csr().rows; })
        .def_property_readonly("cols", [](const S& source) { return source.csr().cols; })
        .def_property_readonly("nnz", [](const S& source) { return source.csr().nnz; })
        .def_property_readonly("ordinal", [](const S& source) { return source.device().ordinal; });
}

}  // namespace

void register_source(py::module_& module) {
    py::class_<Permutation>(module, "Permutation",
                            "Another order of the rows and columns of a square matrix, found where the matrix lies.")
        .def(
            "indices", [](const Permutation& permutation) { return to_numpy(permutation.rows); },
            "Its NumPy array: row indices()[i] becomes row i, and so do the columns.");
    for_each_value_type([&]<class T>() { register_source_of<T>(module); });
}

}  // namespace spmvgpu
