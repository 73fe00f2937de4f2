#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <limits>
#include <optional>
#include <utility>

#include "bindings/bindings.hpp"
#include "bindings/csr.hpp"
#include "bindings/value_types.hpp"
#include "core/parallel.hpp"
#include "solvers/subspaces/composed_map.hpp"
#include "solvers/subspaces/krylov_basis.hpp"
#include "solvers/subspaces/least_squares.hpp"

namespace py = pybind11;

namespace spmvgpu {

namespace {

// What Python holds of the vectors of a method: a call works without the interpreter's lock, and with so many threads.
template <class Vectors>
struct Held {
    std::unique_ptr<Vectors> vectors;
    int threads;

    template <class Call>
    auto call(Call&& call) const {
        const GilRelease release;
        const ThreadLimit limit(threads);
        return call(*vectors);
    }
};

int at_most(std::optional<int> threads) { return threads.value_or(std::numeric_limits<int>::max()); }

template <class T>
void register_basis(py::module_& module, const std::string& suffix) {
    using Map = LinearMap<T>;
    using Basis = Held<KrylovBasis<T>>;
    using Factors = Dense<Wide<T>>;
    py::class_<Basis>(module, ("KrylovBasis" + suffix).c_str(), "An orthonormal basis on a device.")
        .def(py::init([](index_t n, int length, std::shared_ptr<SolverMemory> memory, std::optional<int> threads) {
                 const GilRelease release;
                 return Basis{make_krylov_basis<T>(n, length, std::move(memory)), at_most(threads)};
             }),
             py::arg("n"), py::arg("length"), py::arg("memory"), py::arg("threads"))
        .def(
            "put",
            [](const Basis& basis, std::uintptr_t x, int number) {
                return basis.call([&](auto& vectors) { return vectors.put(reinterpret_cast<const T*>(x), number); });
            },
            py::arg("x"), py::arg("number"),
            "The vector at an address made orthonormal to those before `number`; its coefficients.")
        .def(
            "exponent",
            [](const Basis& basis, const Map& map) {
                return basis.call([&](auto& vectors) { return vectors.exponent(map); });
            },
            py::arg("map"), "The exponent of the product with the first vector, which overwrites the second one.")
        .def(
            "extend",
            [](const Basis& basis, const Map& map, int first, int last, int exponent) {
                const auto found =
                    basis.call([&](auto& vectors) { return vectors.extend(map, first, last, exponent); });
                py::array_t<double> result({last - first, 2});
                std::copy(found.begin(), found.end(), result.mutable_data());
                return result;
            },
            py::arg("map"), py::arg("first"), py::arg("last"), py::arg("exponent"),
            "The diagonal and what stands beside it, of steps of the Lanczos method.")
        .def(
            "restart",
            [](const Basis& basis, const Factors& q) {
                const auto to = static_cast<int>(q.shape(0)), from = static_cast<int>(q.shape(1));
                basis.call([&](auto& vectors) { vectors.restart(q.data(), from, to); });
            },
            py::arg("q"), "Combinations of vectors in place of the first ones, and behind them the next vector.")
        .def(
            "combine",
            [](const Basis& basis, const Factors& q, std::uintptr_t to) {
                const auto count = static_cast<int>(q.shape(0)), from = static_cast<int>(q.shape(1));
                basis.call([&](auto& vectors) { vectors.combine(q.data(), from, count, reinterpret_cast<T*>(to)); });
            },
            py::arg("q"), py::arg("to"), "Combinations of vectors at an address, one after the other.")
        .def(
            "multiply",
            [](const Basis& basis, const Map& map, int number, std::uintptr_t to) {
                basis.call([&](auto& vectors) { vectors.multiply(map, number, reinterpret_cast<T*>(to)); });
            },
            py::arg("map"), py::arg("number"), py::arg("to"), "The product with a vector, at an address.");
}

template <class T>
void register_least_squares(py::module_& module, const std::string& suffix) {
    using Map = std::shared_ptr<const LinearMap<T>>;
    using Work = Held<LeastSquares<T>>;
    const auto at = [](std::uintptr_t address) { return reinterpret_cast<T*>(address); };
    py::class_<Work>(module, ("LeastSquares" + suffix).c_str(), "The vectors of a least-squares method on a device.")
        .def(py::init([](Map A, Map adjoint, index_t rows, index_t cols, std::shared_ptr<SolverMemory> memory,
                         std::optional<int> threads) {
                 const GilRelease release;
                 return Work{make_least_squares<T>(std::move(A), std::move(adjoint), rows, cols, std::move(memory)),
                             at_most(threads)};
             }),
             py::arg("A"), py::arg("adjoint"), py::arg("rows"), py::arg("cols"), py::arg("memory"), py::arg("threads"))
        .def(
            "start",
            [at](const Work& work, std::uintptr_t b, std::uintptr_t guess, std::uintptr_t x) {
                const auto start = work.call([&](auto& vectors) { return vectors.start(at(b), at(guess), at(x)); });
                return std::tuple(start.beta, start.alpha, start.exponent_b, start.exponent_A);
            },
            py::arg("b"), py::arg("guess"), py::arg("x"),
            "(beta, alpha, exponent of b, exponent of A) of the first residual; x is the guess, or zero for address 0.")
        .def(
            "next",
            [at](const Work& work, std::uintptr_t x, const std::array<double, 4>& factors, bool has_p,
                 std::uintptr_t variances, double of_variance) {
                const auto step = work.call([&](auto& vectors) {
                    return vectors.next(at(x), {factors[0], factors[1], factors[2], factors[3]}, has_p, at(variances),
                                        of_variance);
                });
                return std::tuple(step.alpha, step.beta, step.x_squared, step.w_squared);
            },
            py::arg("x"), py::arg("factors"), py::arg("has_p"), py::arg("variances"), py::arg("of_variance"),
            "Updates with factors of p, x, v and w, and the next step: (alpha, beta, |x|^2, |w|^2).")
        .def(
            "start_descent",
            [at](const Work& work, std::uintptr_t x, double damp, double goal) {
                return work.call([&](auto& vectors) { return vectors.start_descent(at(x), damp, goal).gamma; });
            },
            py::arg("x"), py::arg("damp"), py::arg("goal"), "|p|^2 of the first direction.")
        .def(
            "descend",
            [at](const Work& work, std::uintptr_t x, int iterations) {
                const auto now = work.call([&](auto& vectors) { return vectors.descend(at(x), iterations); });
                return std::tuple(now.iterations, now.gamma, now.stopped);
            },
            py::arg("x"), py::arg("iterations"), "(iterations so far, gamma, whether it has ended).")
        .def(
            "finish",
            [at](const Work& work, std::uintptr_t x) { work.call([&](auto& vectors) { vectors.finish(at(x)); }); },
            py::arg("x"), "Make x what the caller gets.");
}

template <class T>
void register_composed_map(py::module_& module, const std::string& suffix) {
    using Map = std::shared_ptr<const LinearMap<T>>;
    py::class_<ComposedMap<T>, LinearMap<T>, std::shared_ptr<ComposedMap<T>>>(module, ("ComposedMap" + suffix).c_str(),
                                                                              "One map after another.")
        .def(py::init<Map, Map, index_t, std::shared_ptr<SolverMemory>>(), py::arg("first"), py::arg("second"),
             py::arg("between"), py::arg("memory"));
}

}  // namespace

void register_subspaces(py::module_& module) {
    for_each_value_type([&]<class T>() {
        const std::string suffix = value_suffix<T>();
        register_basis<T>(module, suffix);
        register_least_squares<T>(module, suffix);
        register_composed_map<T>(module, suffix);
    });
}

}  // namespace spmvgpu
