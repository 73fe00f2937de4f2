#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <complex>
#include <limits>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "bindings/bindings.hpp"
#include "bindings/csr.hpp"
#include "bindings/maps.hpp"
#include "bindings/rank_sums.hpp"
#include "bindings/value_types.hpp"
#include "core/parallel.hpp"
#include "solvers/subspaces/exponential.hpp"
#include "solvers/subspaces/krylov_basis.hpp"
#include "solvers/subspaces/least_squares.hpp"

namespace py = pybind11;

namespace spmvgpu {

namespace {

// The vectors of a method, as Python holds them. Their operations run without the interpreter's lock, on a given number
// of threads.
template <template <class> class Vectors>
struct MethodVectors {
    AnyOf<Vectors> vectors;
    int threads;

    template <class Call>
    auto visit(Call&& call) const {
        const GilRelease release;
        const ThreadLimit limit(threads);
        return vectors.visit(std::forward<Call>(call));
    }
};

int at_most(std::optional<int> threads) { return threads.value_or(std::numeric_limits<int>::max()); }

using BasisVectors = MethodVectors<KrylovBasis>;
using LeastSquaresVectors = MethodVectors<LeastSquares>;
using ExponentialVectors = MethodVectors<Exponential>;
using Coefficients = std::vector<std::variant<double, Complex<double>>>;

// Calls call() with the factors of linear combinations of the vectors of a basis.
template <class Call>
void with_factors(const BasisVectors& basis, const py::array& q, Call&& call) {
    basis.vectors.visit([&]<class T>(const std::shared_ptr<KrylovBasis<T>>& held) {
        const auto factors = array_as<Dense<Wide<T>>>(q);
        const auto count = static_cast<int>(q.shape(0)), from = static_cast<int>(q.shape(1));
        const GilRelease release;
        const ThreadLimit limit(basis.threads);
        call(*held, factors.data(), count, from);
    });
}

void register_basis(py::module_& module) {
    py::class_<BasisVectors>(module, "KrylovBasis", "An orthonormal basis on a device.")
        .def(py::init(of_dtype([]<class T>(index_t n, int length, std::shared_ptr<SolverMemory> memory,
                                           std::optional<int> threads, const py::object& ranks,
                                           const std::optional<AnyMap>& inner) {
                 RankSums sums = rank_sums(ranks);
                 std::shared_ptr<const LinearMap<T>> map;
                 if (inner) map = inner->of<T>();
                 const GilRelease release;
                 return BasisVectors{
                     make_krylov_basis<T>(n, length, std::move(memory), std::move(sums), std::move(map)),
                     at_most(threads)};
             })),
             py::arg("dtype"), py::arg("n"), py::arg("length"), py::arg("memory"), py::arg("threads"),
             py::arg("ranks") = py::none(), py::arg("inner") = py::none())
        .def("put", method<BasisVectors>([]<class T>(KrylovBasis<T>& basis, std::uintptr_t x, int number) {
                 const auto found = basis.put(at<T>(x), number);
                 return Coefficients(found.begin(), found.end());
             }),
             py::arg("x"), py::arg("number"),
             "The vector at an address made orthonormal to those before `number`; its coefficients.")
        .def("products",
             method<BasisVectors>(
                 []<class T>(KrylovBasis<T>& basis, const AnyMap& map, std::uintptr_t x, std::uintptr_t y) {
                     const auto found = basis.products(*map.of<T>(), at<T>(x), at<T>(y));
                     return Coefficients(found.begin(), found.end());
                 }),
             py::arg("map"), py::arg("x"), py::arg("y"),
             "The products of vectors x, y and v = map x with v, and with v = map y, but for a power of two.")
        .def("exponent", method<BasisVectors>([]<class T>(KrylovBasis<T>& basis, const AnyMap& map) {
                 return basis.exponent(*map.of<T>());
             }),
             py::arg("map"), "The exponent of the product with the first vector, which overwrites the second one.")
        .def(
            "extend",
            [](const BasisVectors& basis, const AnyMap& map, int first, int last, int exponent) {
                const auto found = basis.visit([&]<class T>(const std::shared_ptr<KrylovBasis<T>>& held) {
                    return held->extend(*map.of<T>(), first, last, exponent);
                });
                py::array_t<double> result({last - first, 2});
                std::copy(found.begin(), found.end(), result.mutable_data());
                return result;
            },
            py::arg("map"), py::arg("first"), py::arg("last"), py::arg("exponent"),
            "The diagonal and what stands beside it, of steps of the Lanczos method.")
        .def(
            "restart",
            [](const BasisVectors& basis, const py::array& q) {
                with_factors(basis, q, []<class T>(KrylovBasis<T>& held, const Wide<T>* factors, int count, int from) {
                    held.restart(factors, from, count);
                });
            },
            py::arg("q"), "Combinations of vectors in place of the first ones, and behind them the next vector.")
        .def(
            "combine",
            [](const BasisVectors& basis, const py::array& q, std::uintptr_t to) {
                with_factors(basis, q,
                             [to]<class T>(KrylovBasis<T>& held, const Wide<T>* factors, int count, int from) {
                                 held.combine(factors, from, count, at<T>(to));
                             });
            },
            py::arg("q"), py::arg("to"), "Combinations of vectors at an address, one after the other.")
        .def("multiply",
             method<BasisVectors>([]<class T>(KrylovBasis<T>& basis, const AnyMap& map, int number, std::uintptr_t to) {
                 basis.multiply(*map.of<T>(), number, at<T>(to));
             }),
             py::arg("map"), py::arg("number"), py::arg("to"), "The product with a vector, at an address.");
}

void register_least_squares(py::module_& module) {
    py::class_<LeastSquaresVectors>(module, "LeastSquares", "The vectors of a least-squares method on a device.")
        .def(py::init(method<AnyMap>([]<class T>(const std::shared_ptr<LinearMap<T>>& A, const AnyMap& adjoint,
                                                 index_t rows, index_t cols, std::shared_ptr<SolverMemory> memory,
                                                 std::optional<int> threads, const py::object& ranks) {
                 RankSums sums = rank_sums(ranks);
                 const GilRelease release;
                 return LeastSquaresVectors{
                     make_least_squares<T>(A, adjoint.of<T>(), rows, cols, std::move(memory), std::move(sums)),
                     at_most(threads)};
             })),
             py::arg("A"), py::arg("adjoint"), py::arg("rows"), py::arg("cols"), py::arg("memory"), py::arg("threads"),
             py::arg("ranks") = py::none())
        .def("start",
             method<LeastSquaresVectors>(
                 []<class T>(LeastSquares<T>& work, std::uintptr_t b, std::uintptr_t guess, std::uintptr_t x) {
                     const auto start = work.start(at<T>(b), at<T>(guess), at<T>(x));
                     return std::tuple(start.beta, start.alpha, start.exponent_b, start.exponent_A);
                 }),
             py::arg("b"), py::arg("guess"), py::arg("x"),
             "(beta, alpha, exponent of b, exponent of A) of the first residual; x is the guess, or zero for address "
             "0.")
        .def("next",
             method<LeastSquaresVectors>([]<class T>(LeastSquares<T>& work, std::uintptr_t x,
                                                     const std::array<double, 4>& factors, bool has_p,
                                                     std::uintptr_t variances, double of_variance) {
                 const auto step = work.next(at<T>(x), {factors[0], factors[1], factors[2], factors[3]}, has_p,
                                             at<T>(variances), of_variance);
                 return std::tuple(step.alpha, step.beta, step.x_squared, step.w_squared);
             }),
             py::arg("x"), py::arg("factors"), py::arg("has_p"), py::arg("variances"), py::arg("of_variance"),
             "Updates with factors of p, x, v and w, and the next step: (alpha, beta, |x|^2, |w|^2).")
        .def(
            "start_descent",
            method<LeastSquaresVectors>([]<class T>(LeastSquares<T>& work, std::uintptr_t x, double damp, double goal) {
                return work.start_descent(at<T>(x), damp, goal).gamma;
            }),
            py::arg("x"), py::arg("damp"), py::arg("goal"), "|p|^2 of the first direction.")
        .def("descend",
             method<LeastSquaresVectors>([]<class T>(LeastSquares<T>& work, std::uintptr_t x, int iterations) {
                 const auto now = work.descend(at<T>(x), iterations);
                 return std::tuple(now.iterations, now.gamma, now.stopped);
             }),
             py::arg("x"), py::arg("iterations"), "(iterations so far, gamma, whether it has ended).")
        .def("finish", method<LeastSquaresVectors>([]<class T>(LeastSquares<T>& work, std::uintptr_t x) {
                 work.finish(at<T>(x));
             }),
             py::arg("x"), "Make x what the caller gets.");
}

void register_exponential(py::module_& module) {
    py::class_<ExponentialVectors>(module, "Exponential", "The vectors of a matrix exponential on a device.")
        .def(py::init(method<AnyMap>([]<class T>(const std::shared_ptr<LinearMap<T>>& A, index_t n, index_t columns,
                                                 std::shared_ptr<SolverMemory> memory, std::optional<int> threads) {
                 const GilRelease release;
                 return ExponentialVectors{make_exponential<T>(A, n, columns, std::move(memory)), at_most(threads)};
             })),
             py::arg("A"), py::arg("n"), py::arg("columns"), py::arg("memory"), py::arg("threads"))
        .def("apply",
             method<ExponentialVectors>([]<class T>(Exponential<T>& work, std::uintptr_t b, std::uintptr_t f,
                                                    std::int64_t steps, double time, std::complex<double> shift,
                                                    std::complex<double> growth, int most_terms) {
                 const auto of = [](std::complex<double> number) { return number_as<Wide<T>>(number); };
                 work.apply(at<T>(b), at<T>(f), {steps, time, of(shift), of(growth), most_terms});
             }),
             py::arg("b"), py::arg("f"), py::arg("steps"), py::arg("time"), py::arg("shift"), py::arg("growth"),
             py::arg("most_terms"), "The exponential of steps * time * A times the vectors at b, written to f.");
}

}  // namespace

void register_subspaces(py::module_& module) {
    register_basis(module);
    register_exponential(module);
    register_least_squares(module);
}

}  // namespace spmvgpu
