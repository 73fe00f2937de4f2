#include <pybind11/numpy.h>
#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include <algorithm>
#include <complex>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bindings/bindings.hpp"
#include "bindings/csr.hpp"
#include "bindings/matrices.hpp"
#include "bindings/plans.hpp"
#include "core/parallel.hpp"
#include "gpu/transfer.hpp"
#include "matrix/matrix.hpp"

namespace py = pybind11;

namespace spmvgpu {

namespace {

using StridePair = std::pair<std::int64_t, std::int64_t>;  // from row to row, from column to column

struct PinnedMemory {
    void* data;
    py::capsule owner;

    explicit PinnedMemory(std::size_t bytes) {
        auto memory = std::make_unique<std::shared_ptr<void>>(gpu::allocate_pinned(bytes));
        data = memory->get();
        owner = py::capsule(memory.release(), [](void* p) { delete static_cast<std::shared_ptr<void>*>(p); });
    }
};

// The y of a product with NumPy arrays: page-locked and recycled where it comes from a GPU.
template <class T>
py::array_t<T> make_result(index_t rows, Device device) {
    if (!device.has_own_memory() || rows == 0) return py::array_t<T>(rows);
    const PinnedMemory memory(rows * sizeof(T));
    return py::array_t<T>(rows, static_cast<T*>(memory.data), memory.owner);
}

template <class T>
py::array multiply_numpy(const AnyMatrix<T>& matrix, const Dense<T>& x, const std::optional<py::array>& out, T alpha,
                         T beta) {
    py::array_t<T> y = out ? py::array_t<T>(array_as<Dense<T>>(*out)) : make_result<T>(matrix.rows(), matrix.device());
    if (x.size() != matrix.cols() || y.size() != matrix.rows()) throw std::invalid_argument("vector of wrong length");
    const Product<T> product{x.data(), y.mutable_data(), alpha, beta};
    {
        const GilRelease release;
        const ThreadLimit limit(matrix.max_threads);
        matrix.spmv_host(product);
    }
    return y;
}

// The Y of a product with NumPy arrays, in the order of X.
template <class T>
py::array_t<T> make_columns(index_t rows, py::ssize_t count, bool by_columns, Device device) {
    constexpr auto kItem = static_cast<py::ssize_t>(sizeof(T));
    constexpr std::size_t kMostPinned = std::size_t(512) << 20;  // more would be missed by the system
    const std::vector<py::ssize_t> shape{rows, count};
    const auto strides = by_columns ? std::vector<py::ssize_t>{kItem, std::max<py::ssize_t>(rows, 1) * kItem}
                                    : std::vector<py::ssize_t>{count * kItem, kItem};
    const std::size_t bytes = std::size_t(rows) * count * kItem;
    if (!device.has_own_memory() || bytes == 0 || bytes > kMostPinned) return py::array_t<T>(shape, strides);
    const PinnedMemory memory(bytes);
    return py::array_t<T>(shape, strides, static_cast<T*>(memory.data), memory.owner);
}

template <class T>
Strides strides_of(const py::array_t<T, 0>& array) {
    constexpr auto kItem = static_cast<py::ssize_t>(sizeof(T));
    return {array.strides(0) / kItem, array.strides(1) / kItem};
}

template <class T>
py::array multiply_columns(const AnyMatrix<T>& matrix, const py::array_t<T, 0>& X, const std::optional<py::array>& out,
                           T alpha, T beta) {
    if (X.ndim() != 2 || X.shape(0) != matrix.cols()) throw std::invalid_argument("array of wrong shape");
    const py::ssize_t rows = matrix.rows(), count = X.shape(1);
    if (count > std::numeric_limits<index_t>::max()) throw std::invalid_argument("2^31 columns or more");
    const bool by_columns = X.strides(0) == static_cast<py::ssize_t>(sizeof(T)) && X.shape(0) > 1 && count > 1;
    py::array_t<T, 0> y = out ? array_as<py::array_t<T, 0>>(*out)
                              : py::array_t<T, 0>(make_columns<T>(matrix.rows(), count, by_columns, matrix.device()));
    if (y.ndim() != 2 || y.shape(0) != rows || y.shape(1) != count) {
        throw std::invalid_argument("array of wrong shape");
    }
    Product<T> product{X.data(), y.mutable_data(), alpha, beta};
    product.columns = static_cast<index_t>(count);
    product.x_strides = strides_of(X);
    product.y_strides = strides_of(y);
    {
        const GilRelease release;
        const ThreadLimit limit(matrix.max_threads);
        if (count > 0) matrix.spmv_host(product);
    }
    return y;
}

template <class T>
py::typing::Dict<py::str, py::array> arrays(const Matrix<T>& matrix) {
    const AnyFormat<T> storage = [&] {
        const GilRelease release;
        return matrix.storage();
    }();
    py::typing::Dict<py::str, py::array> result;
    std::visit(
        [&](const auto& format) {
            format.each_array(format, [&](const char* name, const auto& array) { result[name] = to_numpy(array); });
        },
        storage);
    return result;
}

using Number = std::complex<double>;

void register_base(py::module_& module) {
    py::class_<Matrices>(module, "AnyMatrix", "A linear map on one device.")
        .def("multiply_pointers",
             method<Matrices>([]<class T>(const AnyMatrix<T>& matrix, std::uintptr_t x, std::uintptr_t y,
                                          const Number& alpha, const Number& beta, std::uintptr_t stream) {
                 matrix.spmv({at<T>(x), at<T>(y), number_as<T>(alpha), number_as<T>(beta)},
                             reinterpret_cast<Stream>(stream));
             }),
             py::arg("x"), py::arg("y"), py::arg("alpha"), py::arg("beta"), py::arg("stream"),
             py::call_guard<GilRelease>(), "Product of vectors on the matrix's own device; queued on the stream.")
        .def(
            "multiply_numpy",
            method<Matrices>([]<class T>(const AnyMatrix<T>& matrix, const py::array& x,
                                         const std::optional<py::array>& out, const Number& alpha, const Number& beta) {
                return multiply_numpy(matrix, array_as<Dense<T>>(x), out, number_as<T>(alpha), number_as<T>(beta));
            }),
            py::arg("x").noconvert(), py::arg("out").noconvert() = py::none(), py::arg("alpha") = Number(1),
            py::arg("beta") = Number(0), "Product of vectors in host memory.")
        .def(
            "multiply_columns",
            method<Matrices>([]<class T>(const AnyMatrix<T>& matrix, const py::array& X,
                                         const std::optional<py::array>& out, const Number& alpha, const Number& beta) {
                return multiply_columns(matrix, array_as<py::array_t<T, 0>>(X), out, number_as<T>(alpha),
                                        number_as<T>(beta));
            }),
            py::arg("X").noconvert(), py::arg("out").noconvert() = py::none(), py::arg("alpha") = Number(1),
            py::arg("beta") = Number(0), "Product of the columns of an array in host memory.")
        .def("multiply_column_pointers",
             method<Matrices>([]<class T>(const AnyMatrix<T>& matrix, std::uintptr_t x, const StridePair& x_strides,
                                          std::uintptr_t y, const StridePair& y_strides, index_t columns,
                                          const Number& alpha, const Number& beta, std::uintptr_t stream) {
                 Product<T> product{at<T>(x), at<T>(y), number_as<T>(alpha), number_as<T>(beta)};
                 product.columns = columns;
                 product.x_strides = {x_strides.first, x_strides.second};
                 product.y_strides = {y_strides.first, y_strides.second};
                 if (columns > 0 && matrix.rows() > 0) matrix.spmv(product, reinterpret_cast<Stream>(stream));
             }),
             py::arg("x"), py::arg("x_strides"), py::arg("y"), py::arg("y_strides"), py::arg("columns"),
             py::arg("alpha"), py::arg("beta"), py::arg("stream"), py::call_guard<GilRelease>(),
             "Product of the columns of arrays on the matrix's own device; strides count elements.")
        .def_property_readonly("dtype",
                               method<Matrices>([]<class T>(const AnyMatrix<T>&) { return py::dtype::of<T>(); }))
        .def_property_readonly(
            "takes_rows", method<Matrices>([](const UntypedMatrix& matrix) { return matrix.takes_rows(); }),
            "True if columns on the device are multiplied at once, in any order; otherwise Fortran order is best.")
        .def("time_products", method<Matrices>([](const UntypedMatrix& matrix, int repeats) {
                 const ThreadLimit limit(matrix.max_threads);
                 return matrix.time_products(long_series(matrix.device(), repeats));
             }),
             py::arg("repeats"), py::call_guard<GilRelease>())
        .def("try_products", method<Matrices>([](const UntypedMatrix& matrix, std::optional<double> product_us) {
                 const Device device = matrix.device();
                 const Series series =
                     product_us ? final_series(device, *product_us) : trial_series(device, matrix.nnz());
                 double microseconds = 0;
                 {
                     const GilRelease release;
                     microseconds = matrix.time_products(series);
                 }
                 return py::make_tuple(microseconds, series.launches());
             }),
             py::arg("product_us") = py::none(),
             "Microseconds of a product from a short series, and how many products that took. A longer one decides "
             "between close ones; it is as long as the time that a product takes suggests.")
        .def_property("max_threads", method<Matrices>([](const UntypedMatrix& matrix) { return matrix.max_threads; }),
                      method<Matrices>([](UntypedMatrix& matrix, int threads) { matrix.max_threads = threads; }),
                      "Threads of the CPU that a product may use at most.")
        .def_property_readonly("rows", method<Matrices>([](const UntypedMatrix& matrix) { return matrix.rows(); }))
        .def_property_readonly("cols", method<Matrices>([](const UntypedMatrix& matrix) { return matrix.cols(); }))
        .def_property_readonly("nnz", method<Matrices>([](const UntypedMatrix& matrix) { return matrix.nnz(); }))
        // Runs without the interpreter's lock: a product that it has to wait for may need the lock to look for signals.
        .def_property_readonly(
            "nbytes", py::cpp_function(method<Matrices>([](const UntypedMatrix& matrix) { return matrix.nbytes(); }),
                                       py::call_guard<GilRelease>()))
        .def_property_readonly(
            "setup_seconds", method<Matrices>([](const UntypedMatrix& matrix) {
                const auto seconds = matrix.setup_seconds();
                return std::map<std::string, double>{{"convert", seconds.convert}, {"transfer", seconds.transfer}};
            }));
}

void register_in_one_format(py::module_& module) {
    using M = MatricesOf<Matrix>;
    py::class_<M, Matrices> matrices(module, "Matrix", "One sparse matrix in one format on one device.");
    matrices
        .def("to_csr", method<M>([]<class T>(const Matrix<T>& matrix) { return to_csr_arrays(matrix); }),
             "(data, indices, indptr) as new NumPy arrays.")
        .def("arrays", method<M>([]<class T>(const Matrix<T>& matrix) { return arrays(matrix); }),
             "The stored arrays by name, as new NumPy arrays.")
        .def("set_x", method<M>([]<class T>(Matrix<T>& matrix, std::uintptr_t x) { matrix.set_x(at<T>(x)); }),
             py::arg("x"), py::call_guard<GilRelease>(), "Declares the x of the products that follow; 0 ends it.")
        .def_property_readonly(
            "value_map_bytes",
            py::cpp_function(method<M>([]<class T>(const Matrix<T>& matrix) { return matrix.value_map_bytes(); }),
                             py::call_guard<GilRelease>()),
            "Bytes kept of what says where values in CSR order belong; counted in nbytes.")
        .def_property_readonly("format", method<M>([]<class T>(const Matrix<T>& matrix) { return matrix.format(); }))
        .def_property_readonly(
            "counts",
            py::cpp_function(method<M>([]<class T>(const Matrix<T>& matrix) { return matrix.counts(); }),
                             py::call_guard<GilRelease>()),
            "Counts of the stored arrays, by name.")
        .def_property_readonly("options",
                               method<M>([]<class T>(const Matrix<T>& matrix) { return named(matrix.options()); }));
    def_update_values(matrices);
    matrices.def(
        "with_values_at",
        [](const M& matrix, std::uintptr_t values) {
            return matrix.visit([&]<class T>(const std::shared_ptr<Matrix<T>>& held) {
                const std::shared_ptr<AnyMatrix<T>> made = Matrix<T>::with_values(held, at<T>(values));
                return made == nullptr ? std::nullopt : std::optional<Matrices>(made);
            });
        },
        py::arg("values"),
        "The matrix with other values in CSR order, at an address on its device, which stay there as long as it is "
        "used; None if its format stores them in another order.");
}

}  // namespace

void register_matrix(py::module_& module) {
    register_base(module);
    register_in_one_format(module);
}

}  // namespace spmvgpu
