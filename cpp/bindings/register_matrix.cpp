#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "bindings/bindings.hpp"
#include "bindings/csr.hpp"
#include "bindings/features.hpp"
#include "core/parallel.hpp"
#include "cuda/transfer.hpp"
#include "formats/transpose.hpp"
#include "matrix/csr_source.hpp"
#include "matrix/matrix.hpp"
#include "matrix/planned_source.hpp"

namespace py = pybind11;

namespace spmvgpu {

namespace {

using GivenStrides = std::pair<std::int64_t, std::int64_t>;  // from row to row, from column to column

// Page-locked memory that belongs to a NumPy array.
struct PinnedMemory {
    void* data;
    py::capsule owner;

    explicit PinnedMemory(std::size_t bytes) {
        auto memory = std::make_unique<std::shared_ptr<void>>(cuda::allocate_pinned(bytes));
        data = memory->get();
        owner = py::capsule(memory.release(), [](void* p) { delete static_cast<std::shared_ptr<void>*>(p); });
    }
};

// The y of a product with NumPy arrays: page-locked and recycled where it comes from a GPU.
template <class T>
py::array_t<T> make_result(index_t rows, Device device) {
    if (!device.is_cuda() || rows == 0) return py::array_t<T>(rows);
    const PinnedMemory memory(rows * sizeof(T));
    return py::array_t<T>(rows, static_cast<T*>(memory.data), memory.owner);
}

template <class T>
py::array multiply_numpy(const AnyMatrix<T>& matrix, const Dense<T>& x, const std::optional<Dense<T>>& out, T alpha,
                         T beta) {
    py::array_t<T> y = out ? py::array_t<T>(*out) : make_result<T>(matrix.rows(), matrix.device());
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
    constexpr std::size_t kMostPinned = std::size_t(512) << 20;  // more would be taken from the rest of the system
    const std::vector<py::ssize_t> shape{rows, count};
    const auto strides = by_columns ? std::vector<py::ssize_t>{kItem, std::max<py::ssize_t>(rows, 1) * kItem}
                                    : std::vector<py::ssize_t>{count * kItem, kItem};
    const std::size_t bytes = std::size_t(rows) * count * kItem;
    if (!device.is_cuda() || bytes == 0 || bytes > kMostPinned) return py::array_t<T>(shape, strides);
    const PinnedMemory memory(bytes);
    return py::array_t<T>(shape, strides, static_cast<T*>(memory.data), memory.owner);
}

template <class T>
Strides strides_of(const py::array_t<T, 0>& array) {
    constexpr auto kItem = static_cast<py::ssize_t>(sizeof(T));
    return {array.strides(0) / kItem, array.strides(1) / kItem};
}

// X and out may have any strides.
template <class T>
py::array multiply_columns(const AnyMatrix<T>& matrix, const py::array_t<T, 0>& X,
                           const std::optional<py::array_t<T, 0>>& out, T alpha, T beta) {
    if (X.ndim() != 2 || X.shape(0) != matrix.cols()) throw std::invalid_argument("array of wrong shape");
    const py::ssize_t rows = matrix.rows(), count = X.shape(1);
    if (count > std::numeric_limits<index_t>::max()) throw std::invalid_argument("2^31 columns or more");
    const bool by_columns = X.strides(0) == static_cast<py::ssize_t>(sizeof(T)) && X.shape(0) > 1 && count > 1;
    py::array_t<T, 0> y =
        out ? *out : py::array_t<T, 0>(make_columns<T>(matrix.rows(), count, by_columns, matrix.device()));
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
py::dict arrays(const Matrix<T>& matrix) {
    const AnyFormat<T> storage = [&] {
        const GilRelease release;
        return matrix.storage();
    }();
    py::dict result;
    std::visit(
        [&](const auto& format) {
            format.each_array(format, [&](const char* name, const auto& array) { result[name] = to_numpy(array); });
        },
        storage);
    return result;
}

py::dict named(const std::vector<OptionInfo>& list) {
    py::dict options;
    for (const auto& option : list) options[option.name.c_str()] = option.value;
    return options;
}

// The plan that make() makes, without the interpreter's lock.
template <class Make>
py::dict described(const Make& make) {
    std::shared_ptr<const MatrixPlan> plan;
    {
        const GilRelease release;
        plan = make();
    }
    const Cost& cost = plan->cost;
    return py::dict(py::arg("options") = named(plan->options), py::arg("bytes") = cost.bytes,
                    py::arg("padding") = cost.padding(), py::arg("slots") = cost.slots,
                    py::arg("launches") = cost.launches, py::arg("gathers") = cost.gathers,
                    py::arg("counts") = cost.counts);
}

// Products, and what is known of every matrix.
template <class T>
void register_base(py::module_& module) {
    using M = AnyMatrix<T>;
    py::class_<M, std::shared_ptr<M>>(module, ("AnyMatrix" + value_suffix<T>()).c_str(),
                                      "What multiplies vectors on one device.")
        .def(
            "multiply_pointers",
            [](const M& matrix, std::uintptr_t x, std::uintptr_t y, T alpha, T beta, std::uintptr_t stream) {
                matrix.spmv({reinterpret_cast<const T*>(x), reinterpret_cast<T*>(y), alpha, beta},
                            reinterpret_cast<Stream>(stream));
            },
            py::arg("x"), py::arg("y"), py::arg("alpha"), py::arg("beta"), py::arg("stream"),
            py::call_guard<GilRelease>(), "Product of vectors on the matrix's own device; queued on the stream.")
        .def("multiply_numpy", &multiply_numpy<T>, py::arg("x").noconvert(), py::arg("out").noconvert() = py::none(),
             py::arg("alpha") = T(1), py::arg("beta") = T(0), "Product of vectors in host memory.")
        .def("multiply_columns", &multiply_columns<T>, py::arg("X").noconvert(),
             py::arg("out").noconvert() = py::none(), py::arg("alpha") = T(1), py::arg("beta") = T(0),
             "Product of the columns of an array in host memory.")
        .def(
            "multiply_column_pointers",
            [](const M& matrix, std::uintptr_t x, const GivenStrides& x_strides, std::uintptr_t y,
               const GivenStrides& y_strides, index_t columns, T alpha, T beta, std::uintptr_t stream) {
                Product<T> product{reinterpret_cast<const T*>(x), reinterpret_cast<T*>(y), alpha, beta};
                product.columns = columns;
                product.x_strides = {x_strides.first, x_strides.second};
                product.y_strides = {y_strides.first, y_strides.second};
                if (columns > 0 && matrix.rows() > 0) matrix.spmv(product, reinterpret_cast<Stream>(stream));
            },
            py::arg("x"), py::arg("x_strides"), py::arg("y"), py::arg("y_strides"), py::arg("columns"),
            py::arg("alpha"), py::arg("beta"), py::arg("stream"), py::call_guard<GilRelease>(),
            "Product of the columns of arrays on the matrix's own device; strides count elements.")
        .def_property_readonly(
            "takes_rows", &M::takes_rows,
            "Whether columns on the device are multiplied at once, in whatever order; else in Fortran order best.")
        .def(
            "set_x", [](M& matrix, std::uintptr_t x) { matrix.set_x(reinterpret_cast<const T*>(x)); }, py::arg("x"),
            py::call_guard<GilRelease>(), "Declares the x of the products that follow; 0 ends it.")
        .def(
            "time_products",
            [](const M& matrix, int repeats) {
                const ThreadLimit limit(matrix.max_threads);
                return matrix.time_products(long_series(matrix.device(), repeats));
            },
            py::arg("repeats"), py::call_guard<GilRelease>())
        .def(
            "try_products",
            [](const M& matrix) {
                const Series series = trial_series(matrix.device(), matrix.nnz());
                double microseconds = 0;
                {
                    const GilRelease release;
                    microseconds = matrix.time_products(series);
                }
                return py::make_tuple(microseconds, series.launches());
            },
            "Microseconds of a product from a short series, and how many products that took.")
        .def_readwrite("max_threads", &M::max_threads, "Threads of the CPU that a product may use at most.")
        .def_property_readonly("dtype", [](const M&) { return py::dtype::of<T>(); })
        .def_property_readonly("rows", &M::rows)
        .def_property_readonly("cols", &M::cols)
        .def_property_readonly("nnz", &M::nnz)
        // Without the interpreter's lock: a product that it has to wait for may want that, to look for signals.
        .def_property_readonly("nbytes", py::cpp_function(&M::nbytes, py::call_guard<GilRelease>()))
        .def_property_readonly("setup_seconds", [](const M& matrix) {
            const auto seconds = matrix.setup_seconds();
            return py::dict(py::arg("convert") = seconds.convert, py::arg("transfer") = seconds.transfer);
        });
}

template <class T>
void register_type(py::module_& module) {
    using M = Matrix<T>;
    py::class_<M, AnyMatrix<T>, std::shared_ptr<M>>(module, ("Matrix" + value_suffix<T>()).c_str(),
                                                    "One sparse matrix in one format on one device.")
        .def(
            py::init([](const Dense<index_t>& indptr, const Dense<index_t>& indices, const Dense<T>& data, index_t cols,
                        const std::string& format, const Options& options, int ordinal, bool share, bool on_host) {
                const CsrMatrix<T> csr =
                    share ? csr_share<T>(indptr, indices, data, cols) : csr_view<T>(indptr, indices, data, cols);
                const GilRelease release;
                return std::make_shared<M>(csr, format, options, Device{ordinal},
                                           on_host ? Builders::kOfHost : Builders::kOfDevice);
            }),
            py::arg("indptr").noconvert(), py::arg("indices").noconvert(), py::arg("data").noconvert(), py::arg("cols"),
            py::arg("format"), py::arg("options"), py::arg("ordinal"), py::arg("share") = false,
            py::arg("on_host") = false,
            "With share, index arrays that the core made may become those of the matrix, and must never change again. "
            "With on_host, it is converted on the host whatever its device.")
        .def_static(
            "plan",
            [](const Dense<index_t>& indptr, const Dense<index_t>& indices, const Dense<T>& data, index_t cols,
               const std::string& format, const Options& options, int ordinal, std::optional<int> processors) {
                const CsrMatrix<T> csr = csr_view<T>(indptr, indices, data, cols);
                const Device device{ordinal};
                return described([&] {
                    return std::make_shared<const MatrixPlan>(plan_matrix(
                        csr, format, options, processors ? Target{device, *processors} : target_of(device)));
                });
            },
            py::arg("indptr").noconvert(), py::arg("indices").noconvert(), py::arg("data").noconvert(), py::arg("cols"),
            py::arg("format"), py::arg("options"), py::arg("ordinal"), py::arg("processors") = py::none(),
            "What a format would do, before it is built: its options with every automatic choice made, and "
            "what it costs. With `processors` given, the device need not be there.")
        .def("to_csr", &to_csr_arrays<T, M>, "(data, indices, indptr) as new NumPy arrays.")
        .def("arrays", &arrays<T>, "The stored arrays by name, as new NumPy arrays.")
        .def(
            "update_values",
            [](M& matrix, const Dense<T>& values) {
                const auto given = Array<T>::view(values.data(), values.size());
                const GilRelease release;
                const ThreadLimit limit(matrix.max_threads);
                matrix.update_values(given);
            },
            py::arg("values").noconvert(), "Replaces the values by others in CSR order, in host memory.")
        .def(
            "update_values_at",
            [](M& matrix, std::uintptr_t values, std::size_t count) {
                matrix.update_values(Array<T>::view(reinterpret_cast<const T*>(values), count, matrix.device()));
            },
            py::arg("values"), py::arg("count"), py::call_guard<GilRelease>(),
            "The same with values at an address on the matrix's own device.")
        .def_property_readonly("value_map_bytes", py::cpp_function(&M::value_map_bytes, py::call_guard<GilRelease>()),
                               "Bytes kept of what says where values in CSR order belong; counted in nbytes.")
        .def_property_readonly("format", &M::format)
        .def_property_readonly("counts", py::cpp_function(&M::counts, py::call_guard<GilRelease>()),
                               "What the format counts of what it stores, by name.")
        .def_property_readonly("options", [](const M& matrix) { return named(matrix.options()); });
}

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
    const CsrMatrix<T>& csr = source.csr();
    const index_t *const offsets = csr.row_offsets.data(), *const cols = csr.col_indices.data();
    if constexpr (kHasCuda) {
        if (source.device().is_cuda()) {
            return extract_features_on_gpu(csr.rows, csr.cols, csr.nnz, offsets, cols, sizeof(T),
                                           source.device().ordinal);
        }
    }
    return extract_features(csr.rows, csr.cols, offsets, cols, sizeof(T));
}

template <class T>
void register_source(py::module_& module) {
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
                return described([&] {
                    return source.plan(format, options,
                                       processors ? *processors : target_of(source.device()).processors);
                });
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

template <class T>
void register_transpose(py::module_& module) {
    module.def(
        "transpose",
        [](const Dense<index_t>& indptr, const Dense<index_t>& indices, const Dense<T>& data, index_t cols) {
            const CsrMatrix<T> csr = csr_view<T>(indptr, indices, data, cols);
            CsrMatrix<T> transposed;
            {
                const GilRelease release;
                transposed = transpose(csr);
            }
            return py::make_tuple(hand_over(transposed.values), hand_over(transposed.col_indices),
                                  hand_over(transposed.row_offsets));
        },
        py::arg("indptr").noconvert(), py::arg("indices").noconvert(), py::arg("data").noconvert(), py::arg("cols"),
        "(data, indices, indptr) of the transposed matrix, canonical.");
}

}  // namespace

#define REGISTER(T)                \
    register_transpose<T>(module); \
    register_base<T>(module);      \
    register_type<T>(module);      \
    register_source<T>(module);

void register_matrix(py::module_& module) { SPMVGPU_FOR_VALUE_TYPES(REGISTER) }

}  // namespace spmvgpu
