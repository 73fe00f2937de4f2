#include <pybind11/numpy.h>
#include <pybind11/stl.h>
#include <pybind11/typing.h>

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
#include "bindings/maps.hpp"
#include "bindings/matrices.hpp"
#include "bindings/rank_sums.hpp"
#include "bindings/value_types.hpp"
#include "core/array.hpp"
#include "core/passes/random.hpp"
#include "gpu/run.hpp"
#include "gpu/runtime.hpp"
#include "gpu/stream.hpp"
#include "solvers/preconditioners/converted.hpp"
#include "solvers/preconditioners/cycle.hpp"
#include "solvers/preconditioners/field_split.hpp"
#include "solvers/preconditioners/incomplete.hpp"
#include "solvers/preconditioners/projection.hpp"
#include "solvers/subspaces/composed_map.hpp"

namespace py = pybind11;

namespace spmvgpu {

namespace {

// A Python function that multiplies NumPy arrays with a vector in each row. The function gets a copy, which it may
// keep; its result is checked before it comes here.
template <class T>
class CallbackMap : public LinearMap<T> {
public:
    CallbackMap(py::object function, index_t rows, index_t cols, int ordinal)
        : function_(std::move(function)), rows_(rows), cols_(cols), device_{ordinal} {}

    void apply(const T* x, T* y, Stream stream) const override { apply_columns(x, y, cols_, 1, stream); }
    void apply_columns(const T* x, T* y, index_t, index_t columns, Stream stream) const override {
        if (device_.is_gpu()) gpu::synchronize(stream, device_.ordinal);
        const std::size_t bytes = std::size_t(rows_) * columns * sizeof(T);
        GilRelease::with_gil([&] {
            py::array_t<T> copy({columns, cols_});
            copy_bytes(copy.mutable_data(), {}, x, device_, copy.nbytes());
            const auto result = call_python(function_, copy).template cast<py::array_t<T, py::array::c_style>>();
            if (static_cast<std::size_t>(result.nbytes()) != bytes)
                throw std::invalid_argument("a callback gave vectors of another length");
            copy_bytes(y, device_, result.data(), {}, bytes);
        });
    }
    bool can_be_recorded() const override { return false; }

private:
    py::object function_;
    index_t rows_, cols_;
    Device device_;
};

// A Python function that multiplies vectors in place: it gets the addresses of x and y and writes all of y.
template <class T>
class InPlaceMap : public LinearMap<T> {
public:
    InPlaceMap(py::object function, int ordinal) : function_(std::move(function)), device_{ordinal} {}

    void apply(const T* x, T* y, Stream stream) const override {
        if (device_.is_gpu()) gpu::synchronize(stream, device_.ordinal);
        GilRelease::with_gil(
            [&] { call_python(function_, reinterpret_cast<std::uintptr_t>(x), reinterpret_cast<std::uintptr_t>(y)); });
    }
    bool can_be_recorded() const override { return false; }

private:
    py::object function_;
    Device device_;
};

// A matrix whose products a Python function computes: y = alpha A x + beta y, for NumPy arrays x and y.
template <class T>
class CalledMatrix : public AnyMatrix<T> {
public:
    CalledMatrix(py::object function, index_t rows, index_t cols, int ordinal)
        : function_(std::move(function)), rows_(rows), cols_(cols), device_{ordinal} {}

    void spmv(const Product<T>& product, Stream stream) const override {
        if (!product.is_of_vectors()) throw std::invalid_argument("a function multiplies one vector at a time");
        if (device_.is_gpu()) gpu::synchronize(stream, device_.ordinal);
        GilRelease::with_gil([&] {
            const py::array_t<T> x = on_host(product.x, cols_), y = on_host(product.y, rows_);
            call_python(function_, x, y, product.alpha, product.beta);
            if (device_.is_gpu()) copy_bytes(product.y, device_, y.data(), {}, y.nbytes());
        });
    }
    void spmv_host(const Product<T>& product) const override {
        if (device_.is_gpu()) throw std::logic_error("a function multiplies vectors on its device");
        spmv(product, nullptr);
    }
    double time_products(const Series&) const override {
        throw std::logic_error("products of a function are not timed");
    }
    bool can_be_recorded() const override { return false; }
    Device device() const override { return device_; }
    index_t rows() const override { return rows_; }
    index_t cols() const override { return cols_; }
    std::int64_t nnz() const override { return 0; }
    std::size_t nbytes() const override { return 0; }
    SetupSeconds setup_seconds() const override { return {}; }

private:
    py::array_t<T> on_host(const T* vector, index_t length) const {
        if (!device_.is_gpu()) return py::array_t<T>(length, vector, py::none());
        py::array_t<T> copy(length);
        copy_bytes(copy.mutable_data(), {}, vector, device_, copy.nbytes());
        return copy;
    }

    py::object function_;
    index_t rows_, cols_;
    Device device_;
};

using GivenMatrix = std::optional<Matrices>;
using GivenLevel = std::tuple<GivenMatrix, std::uintptr_t, double, double, int, GivenMatrix, GivenMatrix, GivenMatrix>;

void register_linear_maps(py::module_& module) {
    py::class_<AnyMap>(module, "LinearMap", "A linear map of a solver, on the device of the vectors.");
    module.def("matrix_map", method<Matrices>([]<class T>(const std::shared_ptr<AnyMatrix<T>>& matrix) -> AnyMap {
                   return std::make_shared<MatrixMap<T>>(matrix);
               }),
               py::arg("matrix"));
    module.def("callback_map",
               of_dtype([]<class T>(const py::typing::Callable<py::array(py::array)>& function, index_t rows,
                                    index_t cols, int ordinal) -> AnyMap {
                   return std::make_shared<CallbackMap<T>>(function, rows, cols, ordinal);
               }),
               py::arg("dtype"), py::arg("function"), py::arg("rows"), py::arg("cols"), py::arg("ordinal"),
               "A function of NumPy arrays with a vector in each row.");
    module.def(
        "in_place_map",
        of_dtype([]<class T>(const py::typing::Callable<py::object(std::uintptr_t, std::uintptr_t)>& function,
                             int ordinal) -> AnyMap { return std::make_shared<InPlaceMap<T>>(function, ordinal); }),
        py::arg("dtype"), py::arg("function"), py::arg("ordinal"),
        "A function of the addresses of two vectors, which makes the second.");
    py::class_<MatricesOf<CalledMatrix>, Matrices>(module, "CalledMatrix",
                                                   "A matrix whose products a function computes.");
    module.def("called_matrix",
               of_dtype([]<class T>(const py::typing::Callable<py::object(py::array, py::array, T, T)>& function,
                                    index_t rows, index_t cols, int ordinal) -> MatricesOf<CalledMatrix> {
                   return std::make_shared<CalledMatrix<T>>(function, rows, cols, ordinal);
               }),
               py::arg("dtype"), py::arg("function"), py::arg("rows"), py::arg("cols"), py::arg("ordinal"),
               "A function of NumPy arrays x and y, alpha and beta, which makes y = alpha A x + beta y.");
    module.def("diagonal_map", of_dtype([]<class T>(std::uintptr_t pointer) -> AnyMap {
                   return std::make_shared<DiagonalMap<T>>(at<T>(pointer));
               }),
               py::arg("dtype"), py::arg("pointer"), "A diagonal at an address on the device.");
    module.def(
        "cycle_map",
        of_dtype([]<class T>(const std::vector<GivenLevel>& given, std::shared_ptr<SolverMemory> memory,
                             const std::vector<std::size_t>& twice) {
            const auto typed = [](const GivenMatrix& matrix) { return matrix ? matrix->of<T>() : nullptr; };
            std::vector<Level<T>> levels;
            for (const auto& [A, diagonal, low, high, degree, R, P, inverse] : given) {
                levels.push_back({typed(A), at<T>(diagonal), low, high, degree, typed(R), typed(P), typed(inverse)});
            }
            for (const std::size_t number : twice) levels.at(number).twice = true;
            return AnyMap(std::make_shared<CycleMap<T>>(std::move(levels), std::move(memory)));
        }),
        py::arg("dtype"), py::arg("levels"), py::arg("memory"), py::arg("twice") = std::vector<std::size_t>{},
        "A multigrid cycle, or a Chebyshev polynomial. A level is (A, address of its inverse diagonal, low, "
        "high, degree, R, P, inverse). A cycle visits the levels in `twice` twice.");
    module.def("projected_map",
               of_dtype([]<class T>(const std::optional<AnyMap>& M, index_t n, std::uintptr_t basis, int count,
                                    std::shared_ptr<SolverMemory> memory, const py::object& ranks) -> AnyMap {
                   return std::make_shared<ProjectedMap<T>>(M ? M->of<T>() : nullptr, n, at<T>(basis), count,
                                                            std::move(memory), rank_sums(ranks));
               }),
               py::arg("dtype"), py::arg("M"), py::arg("n"), py::arg("basis"), py::arg("count"), py::arg("memory"),
               py::arg("ranks") = py::none(),
               "A map, or the identity for None, and then the projection onto what is orthogonal to a null space. Its "
               "basis has `count` orthonormal vectors at an address on the device, one after the other.");
    module.def("converted_map",
               method<AnyMap>([]<class T>(const std::shared_ptr<LinearMap<T>>& map, index_t n, index_t columns,
                                          std::shared_ptr<SolverMemory> memory) -> AnyMap {
                   if constexpr (std::is_same_v<Real<T>, float>) {
                       using Wide = std::conditional_t<kIsComplex<T>, Complex<double>, double>;
                       return std::make_shared<ConvertedMap<Wide>>(map, n, columns, std::move(memory));
                   } else {
                       throw std::invalid_argument("the map must be in single precision");
                   }
               }),
               py::arg("map"), py::arg("n"), py::arg("columns"), py::arg("memory"),
               "A map in single precision for at most `columns` columns of length n in double precision.");
    module.def("composed_map",
               method<AnyMap>([]<class T>(const std::shared_ptr<LinearMap<T>>& first, const AnyMap& second,
                                          index_t between, std::shared_ptr<SolverMemory> memory) -> AnyMap {
                   return std::make_shared<ComposedMap<T>>(first, second.of<T>(), between, std::move(memory));
               }),
               py::arg("first"), py::arg("second"), py::arg("between"), py::arg("memory"), "One map after another.");
    module.def(
        "draw_vector",
        of_dtype([]<class T>(std::int64_t n, std::uint64_t seed, std::uintptr_t to, int ordinal, std::int64_t first) {
            const GilRelease release;
            gpu::run(DrawVector<T>{n, first, seed, at<T>(to)}, Device{ordinal});
        }),
        py::arg("dtype"), py::arg("n"), py::arg("seed"), py::arg("to"), py::arg("ordinal"), py::arg("first") = 0,
        "Entries from `first` on of a vector of random numbers from -1 to 1, the same on every device; complete "
        "on return.");
    module.def("apply_map",
               method<AnyMap>([]<class T>(const LinearMap<T>& map, std::uintptr_t x, std::uintptr_t y, index_t n,
                                          index_t columns, int ordinal) {
                   if (ordinal == Device::kCpu) return map.apply_columns(at<T>(x), at<T>(y), n, columns, nullptr);
                   const gpu::DeviceGuard guard(ordinal);
                   const std::shared_ptr<void> stream = gpu::lease_stream(ordinal);
                   map.apply_columns(at<T>(x), at<T>(y), n, columns, stream.get());
                   gpu::synchronize(stream.get(), ordinal);
               }),
               py::arg("map"), py::arg("x"), py::arg("y"), py::arg("n"), py::arg("columns"), py::arg("ordinal"),
               py::call_guard<GilRelease>(),
               "y = map(x), of vectors on a device, columns of length n one after the other; complete on return.");
}

using AnyFactors = AnyOf<IncompleteFactors>;
using GivenPivot = std::optional<std::pair<index_t, std::variant<double, Complex<double>>>>;

template <class T>
GivenPivot row_and_value(const std::optional<Pivot<T>>& pivot) {
    if (!pivot) return std::nullopt;
    return std::pair(pivot->row, pivot->value);
}

void register_factors(py::module_& module) {
    py::class_<AnyFactors>(module, "IncompleteFactors", "Incomplete LU factors of a canonical matrix.")
        .def(py::init([](const Dense<index_t>& indptr, const Dense<index_t>& indices, const py::array& data,
                         int ordinal, std::optional<bool> pivots_in_lower, int levels) {
                 return with_value_type(data.dtype(), [&]<class T>() -> AnyFactors {
                     const auto csr =
                         csr_view(indptr, indices, array_as<Dense<T>>(data), static_cast<index_t>(indptr.size() - 1));
                     const GilRelease release;
                     const Device device{ordinal};
                     return pivots_in_lower ? std::make_shared<IncompleteFactors<T>>(csr, *pivots_in_lower, device)
                                            : std::make_shared<IncompleteFactors<T>>(csr, device, levels);
                 });
             }),
             py::arg("indptr"), py::arg("indices"), py::arg("data"), py::arg("ordinal"),
             py::arg("pivots_in_lower") = py::none(), py::arg("levels") = 0,
             "With `levels` of fill. With `pivots_in_lower`, from what to_csr() gives, or its conjugate transpose, "
             "whose pivots are in the "
             "other factor.")
        .def("to_csr",
             method<AnyFactors>([]<class T>(const IncompleteFactors<T>& factors) { return to_csr_arrays(factors); }),
             "(data, indices, indptr) of both factors in one matrix, with the inverse pivots on its diagonal.")
        .def_property_readonly("pivots_in_lower", method<AnyFactors>([]<class T>(const IncompleteFactors<T>& factors) {
                                   return factors.pivots_in_lower();
                               }))
        .def_property_readonly("failed", method<AnyFactors>([]<class T>(const IncompleteFactors<T>& factors) {
                                   return row_and_value(factors.failed());
                               }),
                               "(row, pivot) of the first one that cannot be divided by, or None.")
        .def_property_readonly("nonpositive", method<AnyFactors>([]<class T>(const IncompleteFactors<T>& factors) {
                                   return row_and_value(factors.nonpositive());
                               }),
                               "(row, pivot) of the first one that is not positive, or None.")
        .def_property_readonly("nbytes", method<AnyFactors>([]<class T>(const IncompleteFactors<T>& factors) {
                                   return factors.nbytes();
                               }));
    module.def("factors_map",
               method<AnyFactors>([]<class T>(const std::shared_ptr<IncompleteFactors<T>>& factors,
                                              std::shared_ptr<SolverMemory> memory) -> AnyMap {
                   return std::make_shared<FactorsMap<T>>(factors, std::move(memory));
               }),
               py::arg("factors"), py::arg("memory"), "Triangular solves with both factors.");
}

// The preconditioner of a part, the block beside its own, and the address and number of the indices of its unknowns.
using PartArguments = std::tuple<AnyMap, std::optional<Matrices>, std::uintptr_t, index_t>;

void register_field_split(py::module_& module) {
    module.def(
        "field_split_map",
        [](const PartArguments& first, const PartArguments& second, std::shared_ptr<SolverMemory> memory,
           const py::object& /*owner*/) {
            return std::get<AnyMap>(first).visit([&]<class T>(const std::shared_ptr<LinearMap<T>>&) -> AnyMap {
                const auto part = [&](const PartArguments& given) -> typename FieldSplitMap<T>::Part {
                    const auto& [M, beside, indices, count] = given;
                    return {Array<index_t>::view(at<index_t>(indices), count, memory->device()), M.of<T>(),
                            beside ? beside->of<T>() : nullptr};
                };
                return std::make_shared<FieldSplitMap<T>>(part(first), part(second), memory);
            });
        },
        py::arg("first"), py::arg("second"), py::arg("memory"), py::arg("owner"), py::keep_alive<0, 4>(),
        "Preconditioners of two parts, with the blocks between them. The owner of the addresses lives as long.");
}

}  // namespace

void register_maps(py::module_& module) {
    py::class_<SolverMemory, std::shared_ptr<SolverMemory>>(module, "SolverMemory",
                                                            "The vectors of solves, kept from one to the next.")
        .def(py::init([](int ordinal) { return std::make_shared<SolverMemory>(Device{ordinal}); }), py::arg("ordinal"))
        .def("clear", &SolverMemory::clear, py::call_guard<GilRelease>(), "Give back what no solve uses.")
        .def_property_readonly("nbytes", py::cpp_function(&SolverMemory::nbytes, py::call_guard<GilRelease>()));
    register_linear_maps(module);
    register_factors(module);
    register_field_split(module);
}

}  // namespace spmvgpu
