#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "bindings/bindings.hpp"
#include "bindings/csr.hpp"
#include "bindings/matrices.hpp"
#include "bindings/planning.hpp"
#include "bindings/value_types.hpp"
#include "core/passes/csr_operations.hpp"
#include "gpu/run.hpp"
#include "gpu/runtime.hpp"
#include "multigrid/between_pieces.hpp"
#include "planning/source.hpp"

namespace py = pybind11;

namespace spmvgpu {

namespace {

using SourceAndSteps = std::pair<std::optional<AnyCsrSource>, StepTuples>;

// Makes a source from unchecked arrays, which are copied to a device and checked there. None if they are not canonical.
// `first` is taken off all offsets.
template <class T>
SourceAndSteps checked(const CsrMatrix<T>& csr, Device device, index_t first = 0) {
    const GilRelease release;
    if (csr.device() != device) gpu::require_memory(csr.bytes(), device);
    // Values of a GPU are copied while the indices are checked, if there may be one more thread.
    const bool is_beside = csr.values.device().is_gpu();
    const auto later = std::launch::deferred, now = is_beside ? std::launch::async | later : later;
    auto values = std::async(now, [&] { return csr.values.to(device); });
    Steps steps;
    auto there = timed(steps, "upload", "", [&] {
        if (!is_beside) values.wait();
        return CsrMatrix<T>{csr.rows, csr.cols, csr.nnz, csr.row_offsets.to(device), csr.col_indices.to(device), {}};
    });
    const bool is_canonical = timed(steps, "checks", "", [&] {
        if (first != 0) there.row_offsets = gpu::run(OffsetsLess{there.row_offsets, first}, device);
        const bool found = gpu::run(IsCanonical{there.pattern()}, device);
        there.values = values.get();
        return found;
    });
    if (!is_canonical) return {std::nullopt, tuples(steps)};
    return {source_of(there), tuples(steps)};
}

SourceAndSteps checked_arrays(const Dense<index_t>& indptr, const Dense<index_t>& indices, const py::array& data,
                              index_t cols, int ordinal) {
    return with_value_type(data.dtype(), [&]<class T>() {
        return checked(csr_view(indptr, indices, array_as<Dense<T>>(data), cols), Device{ordinal});
    });
}

// An array in host memory, or an address on a device.
using Offsets = std::variant<Dense<index_t>, std::uintptr_t>;

Array<index_t> offsets_view(const Offsets& given, std::size_t size, Device there) {
    if (const auto* address = std::get_if<std::uintptr_t>(&given)) {
        return Array<index_t>::view(at<index_t>(*address), size, there);
    }
    auto array = view_of(std::get<Dense<index_t>>(given));
    if (array.size() != size) throw std::invalid_argument("inconsistent CSR arrays");
    return array;
}

// Calls a function with the matrices of sources that have the same value type, one at least, without the GIL.
template <class Call>
AnyCsrSource visit_csr(const std::vector<AnyCsrSource>& sources, const Call& call) {
    if (sources.empty()) throw std::invalid_argument("no matrices");
    return sources[0].visit([&]<class T>(const std::shared_ptr<PlannedSource<T>>&) {
        std::vector<CsrMatrix<T>> parts;
        for (const AnyCsrSource& source : sources) parts.push_back(source.of<T>()->csr());
        const GilRelease release;
        return source_of(call(parts));
    });
}

}  // namespace

void register_source(py::module_& module) {
    py::class_<Permutation>(module, "Permutation",
                            "Another order of the rows and columns of a square matrix, found where the matrix lies.")
        .def(
            "indices", [](const Permutation& permutation) { return to_numpy(permutation.rows); },
            "Its NumPy array: row indices()[i] becomes row i, and so do the columns.");
    py::class_<AnyCsrSource>(module, "CsrSource",
                             "A canonical matrix in CSR on a device, of which others are made there.")
        .def(py::init([](const Dense<index_t>& indptr, const Dense<index_t>& indices, const py::array& data,
                         index_t cols, int ordinal) {
                 return with_value_type(data.dtype(), [&]<class T>() -> AnyCsrSource {
                     const Device device{ordinal};
                     const auto values = array_as<Dense<T>>(data);
                     const auto csr = device.has_own_memory() ? csr_view(indptr, indices, values, cols)
                                                              : csr_share(indptr, indices, values, cols);
                     const GilRelease release;
                     if (!device.has_own_memory()) return source_of(csr);
                     return std::make_shared<PlannedSource<T>>(csr, device);
                 });
             }),
             py::arg("indptr").noconvert(), py::arg("indices").noconvert(), py::arg("data").noconvert(),
             py::arg("cols"), py::arg("ordinal"), py::keep_alive<1, 2>(), py::keep_alive<1, 3>(),
             py::keep_alive<1, 4>(),
             "A source of arrays in host memory, which must not change any more, or which cross the bus once.")
        .def_static("checked", &checked_arrays, py::arg("indptr").noconvert(), py::arg("indices").noconvert(),
                    py::arg("data").noconvert(), py::arg("cols"), py::arg("ordinal"),
                    "(source, steps) of unchecked arrays in host memory, copied to the device; None in "
                    "place of the source if rows are not sorted or have duplicates, or an index is out of range.")
        .def_static(
            "checked_at",
            of_dtype([]<class T>(const Offsets& indptr, std::uintptr_t indices, std::uintptr_t data, index_t rows,
                                 index_t cols, index_t nnz, int from, int ordinal, index_t first) {
                const Device there{from};
                const CsrMatrix<T> csr{rows,
                                       cols,
                                       nnz,
                                       offsets_view(indptr, rows + std::size_t(1), there),
                                       Array<index_t>::view(at<index_t>(indices), nnz, there),
                                       Array<T>::view(at<T>(data), nnz, there)};
                return checked(csr, Device{ordinal}, first);
            }),
            py::arg("dtype"), py::arg("indptr"), py::arg("indices"), py::arg("data"), py::arg("rows"), py::arg("cols"),
            py::arg("nnz"), py::arg("from_ordinal"), py::arg("ordinal"), py::arg("first") = 0,
            "(source, steps) of arrays at addresses on a GPU, which may be another one; the offsets, of which "
            "`first` is taken off, may be in host memory.")
        .def_static("of", method<MatricesOf<Matrix>>([]<class T>(const Matrix<T>& matrix, bool may_lend) {
                        return source_of(matrix.csr_there(may_lend));
                    }),
                    py::arg("matrix"), py::arg("may_lend") = false, py::call_guard<GilRelease>(),
                    "A stored matrix in CSR on its device, with values of its own, unless it may lend its own ones.")
        .def_static(
            "stacked",
            [](const std::vector<AnyCsrSource>& sources) {
                return visit_csr(sources,
                                 []<class T>(const std::vector<CsrMatrix<T>>& parts) { return stacked(parts); });
            },
            py::arg("sources"), "The rows of matrices on one device, one matrix after the other.")
        .def_static(
            "sum_of_rows",
            [](const std::vector<AnyCsrSource>& sources, index_t begin, index_t end, int ordinal) {
                return visit_csr(sources, [&]<class T>(const std::vector<CsrMatrix<T>>& parts) {
                    return sum_of_rows(parts, begin, end, Device{ordinal});
                });
            },
            py::arg("sources"), py::arg("begin"), py::arg("end"), py::arg("ordinal"),
            "A source on a device of the sum of the rows from `begin` to before `end` of matrices on any devices.")
        .def("build",
             method<AnyCsrSource>([]<class T>(PlannedSource<T>& source, const std::string& format,
                                              const Options& options, int ordinal, bool on_host) {
                 const Builders builders = on_host ? Builders::kOfHost : Builders::kOfDevice;
                 return MatricesOf<Matrix>(source.build(format, options, Device{ordinal}, builders));
             }),
             py::arg("format"), py::arg("options"), py::arg("ordinal"), py::arg("on_host") = false,
             py::call_guard<GilRelease>(),
             "The matrix in a format. With on_host, it is converted on the host whatever its device.")
        .def("nearer_order",
             method<AnyCsrSource>([]<class T>(PlannedSource<T>& source, double products, double spent_us) {
                 using Nearer = std::tuple<std::optional<Permutation>, std::optional<AnyCsrSource>, StepTuples>;
                 const GilRelease release;
                 Steps steps;
                 auto found = source.nearer_order(Budget(products, spent_us, 0, true), steps);
                 if (!found) return Nearer{std::nullopt, std::nullopt, tuples(steps)};
                 return Nearer{std::move(found->permutation), source_of(found->csr), tuples(steps)};
             }),
             py::arg("products"), py::arg("spent_us"),
             "(permutation, source, steps): as by_clusters, or None twice, if format=\"auto\" is to store the matrix "
             "so.")
        .def("astype", method<AnyCsrSource>([]<class T>(const PlannedSource<T>& source, const py::dtype& dtype) {
                 return with_value_type(dtype, [&]<class To>() -> AnyCsrSource {
                     if constexpr (std::is_same_v<T, To> || (kIsComplex<T> && !kIsComplex<To>)) {
                         throw py::type_error("values of " + value_name<T>() + " are not converted to " +
                                              value_name<To>());
                     } else {
                         const GilRelease release;
                         return source_of(source.template as<To>());
                     }
                 });
             }),
             py::arg("dtype"), py::keep_alive<0, 1>(),
             "A source of the matrix with values of another type, which share its index arrays.")
        .def("times_number",
             method<AnyCsrSource>(
                 []<class T>(const PlannedSource<T>& source, std::complex<double> factor, bool divides) {
                     const T number = number_as<T>(factor);
                     const GilRelease release;
                     return source_of(source.scaled(divides ? Scaling::kDivide : Scaling::kMultiply, number));
                 }),
             py::arg("factor"), py::arg("divides") = false, py::keep_alive<0, 1>(),
             "A source of the matrix times a number, or divided by it, which share their index arrays.")
        .def("conjugated", method<AnyCsrSource>([]<class T>(const PlannedSource<T>& source) {
                 return source_of(source.scaled(Scaling::kConjugate));
             }),
             py::keep_alive<0, 1>(), py::call_guard<GilRelease>(),
             "A source of the matrix with conjugate values, which share their index arrays.")
        .def("transposed", method<AnyCsrSource>([]<class T>(const PlannedSource<T>& source) {
                 return source_of(source.transposed());
             }),
             py::call_guard<GilRelease>(), "A source of the transposed matrix on the same device.")
        .def("rows", method<AnyCsrSource>([]<class T>(const PlannedSource<T>& source, index_t begin, index_t end) {
                 return source_of(source.rows(begin, end));
             }),
             py::arg("begin"), py::arg("end"), py::keep_alive<0, 1>(), py::call_guard<GilRelease>(),
             "A source of the rows from `begin` to before `end`, with windows on the arrays of this one.")
        .def("rows", method<AnyCsrSource>([]<class T>(const PlannedSource<T>& source, const Dense<index_t>& listed) {
                 const auto rows = view_of(listed);
                 const GilRelease release;
                 return source_of(source.rows(rows));
             }),
             py::arg("listed").noconvert(), "A source of these rows, in this order, on the same device.")
        .def("shared_rows",
             method<AnyCsrSource>([]<class T>(const PlannedSource<T>& source, const Dense<index_t>& listed,
                                              index_t first, index_t cols, int ordinal) {
                 const auto rows = view_of(listed);
                 const GilRelease release;
                 return source_of(source.shared_rows(rows, first, cols, Device{ordinal}));
             }),
             py::arg("listed").noconvert(), py::arg("first"), py::arg("cols"), py::arg("ordinal"),
             "A source on a device of these rows, in the columns of a wider matrix with `cols` columns, where those of "
             "this one begin at column `first`.")
        .def("columns", method<AnyCsrSource>([]<class T>(const PlannedSource<T>& source, index_t begin, index_t end) {
                 return source_of(source.columns(begin, end));
             }),
             py::arg("begin"), py::arg("end"), py::call_guard<GilRelease>(),
             "A source of the columns from `begin` to before `end`, of which `begin` becomes 0, on the same device. "
             "Columns that the matrix does not have are empty.")
        .def("outside", method<AnyCsrSource>([]<class T>(const PlannedSource<T>& source, index_t begin, index_t end) {
                 return source_of(source.outside(begin, end));
             }),
             py::arg("begin"), py::arg("end"), py::call_guard<GilRelease>(),
             "A source of the entries outside of these columns, with the numbers that they have.")
        .def("without_zeros", method<AnyCsrSource>([]<class T>(const PlannedSource<T>& source) {
                 return source_of(source.without_zeros());
             }),
             py::call_guard<GilRelease>(), "A source of the entries that are not zero, on the same device.")
        .def("positive_inverses",
             method<AnyCsrSource>(
                 []<class T>(const PlannedSource<T>& source, index_t shift, std::uintptr_t to, int ordinal) {
                     const Array<T> inverses = source.positive_inverses(shift);
                     copy_bytes(at<T>(to), Device{ordinal}, inverses.data(), source.device(), inverses.bytes());
                 }),
             py::arg("shift"), py::arg("to"), py::arg("ordinal"), py::call_guard<GilRelease>(),
             "Write the inverses of the entries (i, i + shift) to an address on a device, zeros for those that are not "
             "positive.")
        .def("largest_eigenvalue",
             method<AnyCsrSource>([]<class T>(const PlannedSource<T>& source, const Dense<double>& given) {
                 const CsrMatrix<T>& csr = source.csr();
                 const auto inverse = view_of(given);
                 if (csr.rows != csr.cols || inverse.size() != static_cast<std::size_t>(csr.rows)) {
                     throw std::invalid_argument("a square matrix, and the inverse of a diagonal");
                 }
                 const GilRelease release;
                 const Array<double> there = inverse.to(source.device());
                 return gpu::run(multigrid::LargestOfScaled<T>{csr, there}, source.device());
             }),
             py::arg("inverse_diagonal").noconvert(),
             "The largest eigenvalue of a Hermitian matrix that is scaled by the inverse of a diagonal, or a little "
             "less.")
        .def("times", method<AnyCsrSource>([]<class T>(const PlannedSource<T>& source, const AnyCsrSource& other) {
                 const CsrMatrix<T>&left = source.csr(), &right = other.of<T>()->csr();
                 if (left.cols != right.rows || right.device() != source.device()) {
                     throw std::invalid_argument("matrices of these shapes or devices have no product");
                 }
                 return source_of(gpu::run(multigrid::SparseProduct<T>{left, right}, source.device()));
             }),
             py::arg("other"), py::call_guard<GilRelease>(),
             "A source of the product with another one on the same device.")
        .def("to", method<AnyCsrSource>([]<class T>(const PlannedSource<T>& source, int ordinal) -> AnyCsrSource {
                 return std::make_shared<PlannedSource<T>>(source.csr(), Device{ordinal});
             }),
             py::arg("ordinal"), py::call_guard<GilRelease>(), "A source of a copy on a device.")
        .def(
            "plus",
            method<AnyCsrSource>([]<class T>(const PlannedSource<T>& source, const AnyCsrSource& other, index_t first) {
                return source_of(source.plus(other.of<T>()->csr(), first));
            }),
            py::arg("other"), py::arg("first") = 0, py::call_guard<GilRelease>(),
            "A source of the sum with another one on the same device, in which the columns of this one begin at "
            "column `first`.")
        .def("column_reach", method<AnyCsrSource>([]<class T>(const PlannedSource<T>& source) {
                 const ColumnReach reach = source.column_reach();
                 return std::tuple{reach.first, reach.last, reach.low, reach.high};
             }),
             py::call_guard<GilRelease>(),
             "(first, last, low, high): the first and the last column with an entry, and the lowest and the highest "
             "diagonal, of a matrix that has entries.")
        .def("diagonal", method<AnyCsrSource>([]<class T>(const PlannedSource<T>& source, std::int64_t shift) {
                 auto diagonal = [&] {
                     const GilRelease release;
                     return source.diagonal(shift);
                 }();
                 return py::array(hand_over(std::move(diagonal)));
             }),
             py::arg("shift"), "The entries (i, i + shift).")
        .def("invert_diagonal",
             method<AnyCsrSource>([]<class T>(const PlannedSource<T>& source, bool of_sizes, std::uintptr_t to) {
                 const GilRelease release;
                 const DiagonalFacts of = source.invert_diagonal(of_sizes, at<T>(to));
                 return std::tuple{of.negative, of.others, of.empty_rows, of.entries, of.scaled, of.sum, of.inverses};
             }),
             py::arg("of_sizes"), py::arg("to"),
             "Write the inverses of the diagonal of a square matrix, or of its sizes, to an address on the device. "
             "An empty row gets a one. Returns how many entries are negative, and how many have no such inverse; how "
             "many rows are empty; and the sums of all entries, of all after rows are divided by the diagonal, of the "
             "diagonal and of the inverses.")
        .def("row_norm", method<AnyCsrSource>([]<class T>(const PlannedSource<T>& source, std::complex<double> shift) {
                 const auto of_diagonal = number_as<Wide<T>>(shift);
                 const GilRelease release;
                 return gpu::run(RowNorm<T>{source.csr(), of_diagonal}, source.device());
             }),
             py::arg("shift"),
             "The largest sum of the sizes of a row's entries of a square matrix, less a number on the diagonal.")
        .def("with_values", method<AnyCsrSource>([]<class T>(const PlannedSource<T>& source, const py::array& given) {
                 const auto values = view_of(array_as<Dense<T>>(given));
                 const GilRelease release;
                 return source_of(source.with_values(values));
             }),
             py::arg("values").noconvert(), py::keep_alive<0, 1>(),
             "A source of a matrix with a copy of other values, from host memory, in the same places.")
        .def(
            "with_values_at",
            method<AnyCsrSource>([]<class T>(const PlannedSource<T>& source, std::uintptr_t values, std::size_t count) {
                return source_of(source.with_values(Array<T>::view(at<T>(values), count, source.device())));
            }),
            py::arg("values"), py::arg("count"), py::keep_alive<0, 1>(), py::call_guard<GilRelease>(),
            "The matrix with values at an address on the device.")
        .def("with_values_of",
             method<AnyCsrSource>(
                 []<class T>(const PlannedSource<T>& source, const AnyCsrSource& other) -> std::optional<AnyCsrSource> {
                     auto made = source.with_values_of(other.of<T>()->csr());
                     if (!made) return std::nullopt;
                     return source_of(*made);
                 }),
             py::arg("other"), py::keep_alive<0, 1>(), py::call_guard<GilRelease>(),
             "The matrix with the values of another one, on any device, and zeros where that has no entries; None if "
             "it has an entry where this one has none.")
        .def_property_readonly(
            "facts", method<AnyCsrSource>([]<class T>(const PlannedSource<T>& source) {
                const CsrMatrix<T>& csr = source.csr();
                return std::tuple{std::pair{csr.rows, csr.cols}, py::dtype::of<T>(), csr.nnz, source.device().ordinal};
            }),
            "(shape, value type, number of stored entries, device).")
        .def_property_readonly("values", method<AnyCsrSource>([]<class T>(const PlannedSource<T>& source) {
                                   return reinterpret_cast<std::uintptr_t>(source.csr().values.data());
                               }),
                               "The address of the values on the device.")
        .def("clustering",
             method<AnyCsrSource>([]<class T>(const PlannedSource<T>& source) { return source.clustering(); }),
             py::call_guard<GilRelease>(),
             "The fraction of the columns of a row's neighbours that repeat, in a square matrix, from a sample.")
        .def("by_clusters", method<AnyCsrSource>([]<class T>(const PlannedSource<T>& source) {
                 const GilRelease release;
                 auto found = source.by_clusters();
                 return std::pair{std::move(found.permutation), source_of(found.csr)};
             }),
             "(permutation, source): a square matrix with rows and columns in an order by clusters.")
        .def("sample",
             method<AnyCsrSource>(
                 []<class T>(const PlannedSource<T>& source, std::int64_t row_step, std::int64_t entry_step) {
                     const auto sample = [&] {
                         const GilRelease release;
                         return source.sample(row_step, entry_step);
                     }();
                     return py::make_tuple(hand_over(sample.row_offsets), hand_over(sample.col_indices));
                 }),
             py::arg("row_step"), py::arg("entry_step"),
             "Every step-th of the row offsets and of the column indices, as NumPy arrays.")
        .def("to_csr", method<AnyCsrSource>([]<class T>(const PlannedSource<T>& source) -> CsrArrays {
                 const auto csr = [&] {
                     const GilRelease release;
                     return source.to_host();
                 }();
                 return {hand_over(csr.values), hand_over(csr.col_indices), hand_over(csr.row_offsets)};
             }),
             "(data, indices, indptr) as NumPy arrays, which must not change.");
}

}  // namespace spmvgpu
