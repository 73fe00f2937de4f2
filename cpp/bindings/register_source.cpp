#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "bindings/bindings.hpp"
#include "bindings/csr.hpp"
#include "bindings/planning.hpp"
#include "bindings/value_types.hpp"
#include "planning/source.hpp"

namespace py = pybind11;

namespace spmvgpu {

namespace {

template <class T>
using SourceAndSteps = std::pair<std::optional<std::shared_ptr<PlannedSource<T>>>, StepTuples>;

// A source from arrays whose contents nobody has checked, which are copied to a device and checked there. None if they
// are not canonical.
template <class T>
SourceAndSteps<T> checked(const CsrMatrix<T>& csr, Device device) {
    const GilRelease release;
    Steps steps;
    auto source = timed(steps, "upload", "", [&] { return std::make_shared<PlannedSource<T>>(csr, device); });
    const bool is_canonical = timed(steps, "checks", "", [&] { return source->is_canonical(); });
    if (!is_canonical) return {std::nullopt, tuples(steps)};
    return {std::move(source), tuples(steps)};
}

template <class T>
SourceAndSteps<T> checked_arrays(const Dense<index_t>& indptr, const Dense<index_t>& indices, const Dense<T>& data,
                                 index_t cols, int ordinal) {
    return checked(csr_view<T>(indptr, indices, data, cols), Device{ordinal});
}

template <class T>
SourceAndSteps<T> checked_at(std::uintptr_t indptr, std::uintptr_t indices, std::uintptr_t data, index_t rows,
                             index_t cols, index_t nnz, int ordinal) {
    const Device device{ordinal};
    const CsrMatrix<T> csr{
        rows,
        cols,
        nnz,
        Array<index_t>::view(reinterpret_cast<const index_t*>(indptr), rows + std::size_t(1), device),
        Array<index_t>::view(reinterpret_cast<const index_t*>(indices), nnz, device),
        Array<T>::view(reinterpret_cast<const T*>(data), nnz, device)};
    return checked(csr, device);
}

template <class T>
void register_source_of(py::module_& module) {
    using S = PlannedSource<T>;
    py::class_<S, AnySource, std::shared_ptr<S>>(module, ("CsrSource" + value_suffix<T>()).c_str(),
                                                 "A matrix in CSR on a device, of which others are made there.")
        .def(py::init([](const Dense<index_t>& indptr, const Dense<index_t>& indices, const Dense<T>& data,
                         index_t cols, int ordinal) {
                 const Device device{ordinal};
                 const CsrMatrix<T> csr = device.has_own_memory() ? csr_view<T>(indptr, indices, data, cols)
                                                                  : csr_share<T>(indptr, indices, data, cols);
                 const GilRelease release;
                 return device.has_own_memory() ? std::make_shared<S>(csr, device) : std::make_shared<S>(csr);
             }),
             py::arg("indptr").noconvert(), py::arg("indices").noconvert(), py::arg("data").noconvert(),
             py::arg("cols"), py::arg("ordinal"), py::keep_alive<1, 2>(), py::keep_alive<1, 3>(),
             py::keep_alive<1, 4>(),
             "Of arrays in host memory, which must not change any more, or which cross the bus once.")
        .def_static("checked", &checked_arrays<T>, py::arg("indptr").noconvert(), py::arg("indices").noconvert(),
                    py::arg("data").noconvert(), py::arg("cols"), py::arg("ordinal"),
                    "(source, steps) of arrays in host memory that nobody has checked, copied to the device; None in "
                    "place of the source if rows are not sorted or have duplicates, or an index is out of range.")
        .def_static("checked_at", &checked_at<T>, py::arg("indptr"), py::arg("indices"), py::arg("data"),
                    py::arg("rows"), py::arg("cols"), py::arg("nnz"), py::arg("ordinal"),
                    "The same of arrays at addresses on the device.")
        .def(
            "build",
            [](S& source, const std::string& format, const Options& options, int ordinal, bool on_host) {
                return source.build(format, options, Device{ordinal},
                                    on_host ? Builders::kOfHost : Builders::kOfDevice);
            },
            py::arg("format"), py::arg("options"), py::arg("ordinal"), py::arg("on_host") = false,
            py::call_guard<GilRelease>(),
            "The matrix in a format. With on_host, it is converted on the host whatever its device.")
        .def(
            "nearer_order",
            [](S& source, double products, double spent_us) {
                using Nearer = std::tuple<std::optional<Permutation>, std::optional<std::shared_ptr<S>>, StepTuples>;
                const GilRelease release;
                Steps steps;
                auto found = source.nearer_order(Budget(products, spent_us, 0, true), steps);
                if (!found) return Nearer{std::nullopt, std::nullopt, tuples(steps)};
                return Nearer{std::move(found->permutation), std::make_shared<S>(found->csr), tuples(steps)};
            },
            py::arg("products"), py::arg("spent_us"),
            "(permutation, source, steps): as by_clusters, or None twice, if format=\"auto\" is to store the matrix "
            "so.")
        .def(
            "transposed", [](const S& source) { return std::make_shared<S>(source.transposed()); },
            py::call_guard<GilRelease>(), "A source of the transposed matrix, on the same device.")
        .def("clustering", &S::clustering, py::call_guard<GilRelease>(),
             "What fraction of the columns of a row's neighbours repeat; of a square matrix, from a sample.")
        .def(
            "by_clusters",
            [](const S& source) {
                const GilRelease release;
                auto found = source.by_clusters();
                return std::pair{std::move(found.permutation), std::make_shared<S>(found.csr)};
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
                return py::make_tuple(hand_over(csr.values), hand_over(csr.col_indices), hand_over(csr.row_offsets));
            },
            "(data, indices, indptr) as NumPy arrays, which must not change.");
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
