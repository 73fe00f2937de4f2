#include <pybind11/stl.h>

#include <optional>

#include "bindings/bindings.hpp"
#include "core/interrupt.hpp"
#include "solvers/cg.hpp"

namespace py = pybind11;

namespace spmvgpu {

namespace {

// Calls the user's callback, if there is one, and lets Ctrl-C end a long solve.
void look_at_solve(const py::object& callback) {
    if (!callback.is_none()) GilRelease::with_gil([&] { callback(); });
    check_interrupt();
}

const char* name_of(CgStatus status) {
    switch (status) {
        case CgStatus::kConverged:
            return "converged";
        case CgStatus::kExhausted:
            return "exhausted";
        case CgStatus::kIndefinite:
            return "indefinite";
        case CgStatus::kBadPreconditioner:
            return "bad_preconditioner";
        default:
            return "not_finite";
    }
}

template <class T>
void register_type(py::module_& module) {
    module.def(
        "cg",
        [](const AnyMatrix<T>& matrix, std::uintptr_t b, std::uintptr_t guess, std::uintptr_t inverse_diagonal,
           std::uintptr_t x, double rtol, double atol, std::int64_t maxiter, std::optional<std::uintptr_t> stream,
           py::object callback) {
            if (matrix.rows() != matrix.cols()) throw std::invalid_argument("the matrix is not square");
            const CgSystem<T> system{reinterpret_cast<const T*>(b), reinterpret_cast<const T*>(guess),
                                     reinterpret_cast<const T*>(inverse_diagonal), reinterpret_cast<T*>(x)};
            const bool look_each = !callback.is_none();
            const CgOptions options{rtol, atol, maxiter, look_each, [&callback] { look_at_solve(callback); }};
            const Stream after = reinterpret_cast<Stream>(stream.value_or(0));
            CgResult result;
            {
                const GilRelease release;
                result = solve_cg(matrix, system, options, stream ? &after : nullptr);
            }
            return py::make_tuple(name_of(result.status), result.iterations, result.offending_value);
        },
        py::arg("matrix"), py::arg("b"), py::arg("guess"), py::arg("inverse_diagonal"), py::arg("x"), py::arg("rtol"),
        py::arg("atol"), py::arg("maxiter"), py::arg("stream"), py::arg("callback"),
        "Conjugate gradients with vectors on the matrix's own device, given by address (0: none). Starts after what "
        "the stream holds; complete on return. Gives (status, iterations, the number that broke the method down).");
}

}  // namespace

void register_solvers(py::module_& module) {
    register_type<float>(module);
    register_type<double>(module);
}

}  // namespace spmvgpu
