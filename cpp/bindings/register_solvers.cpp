#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/bindings.hpp"
#include "bindings/maps.hpp"
#include "bindings/rank_sums.hpp"
#include "bindings/value_types.hpp"
#include "core/interrupt.hpp"
#include "core/parallel.hpp"
#include "solvers/engines/batch.hpp"
#include "solvers/engines/resident.hpp"
#include "solvers/solve.hpp"

namespace py = pybind11;

namespace spmvgpu {

namespace {

// Everything that a solve needs, as Python gives it. Vectors are given by their addresses on one device; 0 is none.
struct SolverRequest : Limits {
    std::string method;
    AnyMap A;
    std::optional<AnyMap> M;
    index_t n = 0, columns = 1;  // the columns of b, x and the guess lie one after the other
    index_t batch = 1;           // see System
    int ordinal = Device::kCpu;
    std::uintptr_t b = 0, guess = 0, x = 0;
    std::shared_ptr<SolverMemory> memory;
    std::optional<std::uintptr_t> stream;  // the solve starts after what it holds
    std::optional<int> threads;
    py::object callback = py::none();  // gets (iterations, residual, norm of b) of every column; True ends the solve
    py::object ranks = py::none();     // adds what other ranks have to an array of sums, or is an NcclCommunicator
};

// The reports of all columns. Python makes an object of a report when it looks at it, as there may be many.
struct SolverReports {
    Reports of_columns;
};

SolverReports solve_as_requested(const SolverRequest& request) {
    const RankSums ranks = rank_sums(request.ranks);
    // Calls the user's callback, if there is one, and lets Ctrl-C end a long solve.
    const auto look = [&callback = request.callback](const std::vector<Look>& seen) {
        bool ends = false;
        if (!callback.is_none()) {
            std::vector<std::tuple<std::int64_t, double, double>> columns;
            for (const auto& [iterations, residual, norm_b] : seen) columns.emplace_back(iterations, residual, norm_b);
            GilRelease::with_gil([&] { ends = call_python(callback, columns).is(py::bool_(true)); });
        }
        check_interrupt();
        return !ends;
    };
    const Stream after = reinterpret_cast<Stream>(request.stream.value_or(0));
    const GilRelease release;
    const ThreadLimit limit(request.threads.value_or(std::numeric_limits<int>::max()));
    return request.A.visit([&]<class T>(const std::shared_ptr<LinearMap<T>>& A) {
        const System<T> system{request.n,
                               Device{request.ordinal},
                               A.get(),
                               request.M ? request.M->of<T>().get() : nullptr,
                               at<T>(request.b),
                               at<T>(request.guess),
                               at<T>(request.x),
                               ranks.function(),
                               ranks.between_gpus.get(),
                               request.columns,
                               request.batch};
        return SolverReports{
            solve(request.method, system, request, *request.memory, request.stream ? &after : nullptr, look)};
    });
}

void register_solve(py::module_& module) {
    py::class_<SolverRequest, Limits>(module, "SolverRequest", "A system, and how it is solved.")
        .def(py::init([](const std::string& method, const AnyMap& A, index_t n, std::shared_ptr<SolverMemory> memory,
                         std::optional<int> threads) {
                 SolverRequest request;
                 request.method = method;
                 request.A = A;
                 request.n = n;
                 request.memory = std::move(memory);
                 request.threads = threads;
                 return request;
             }),
             py::arg("method"), py::arg("A"), py::arg("n"), py::arg("memory"), py::arg("threads"))
        .def_readwrite("M", &SolverRequest::M)
        .def_readwrite("columns", &SolverRequest::columns)
        .def_readwrite("batch", &SolverRequest::batch)
        .def_readwrite("ordinal", &SolverRequest::ordinal)
        .def_readwrite("b", &SolverRequest::b)
        .def_readwrite("guess", &SolverRequest::guess)
        .def_readwrite("x", &SolverRequest::x)
        .def_readwrite("stream", &SolverRequest::stream)
        .def_readwrite("callback", &SolverRequest::callback)
        .def_readwrite("ranks", &SolverRequest::ranks);
    module.def("solve", &solve_as_requested, py::arg("request"),
               "Solves, and reports on every column; complete on return.");
}

void register_limits_and_report(py::module_& module) {
    py::class_<Limits>(module, "SolverLimits", "When a solve ends, and how it is done.")
        .def_readwrite("rtol", &Limits::rtol)
        .def_readwrite("atol", &Limits::atol)
        .def_readwrite("maxiter", &Limits::maxiter)
        .def_readwrite("restart", &Limits::restart)
        .def_readwrite("flexible", &Limits::flexible)
        .def_readwrite("legacy", &Limits::legacy)
        .def_readwrite("guess_is_mb", &Limits::guess_is_mb)
        .def_readwrite("check", &Limits::check)
        .def_readwrite("shift", &Limits::shift)
        .def_readwrite("look_each", &Limits::look_each)
        .def_readwrite("look_restarts", &Limits::look_restarts)
        .def_readwrite("look_every", &Limits::look_every)
        .def_readwrite("record", &Limits::record);
    py::class_<Report>(module, "SolverReport", "How a solve went.")
        .def_property_readonly("status",
                               [](const Report& report) { return kStatusNames[static_cast<int>(report.status)]; })
        .def_readonly("iterations", &Report::iterations)
        .def_readonly("offending_value", &Report::offending_value)
        .def_readonly("residual", &Report::residual)
        .def_readonly("true_residual", &Report::true_residual)
        .def_readonly("goal", &Report::goal)
        .def_readonly("norm_b", &Report::norm_b)
        .def_readonly("seconds", &Report::seconds)
        .def_readonly("product_seconds", &Report::product_seconds)
        .def_readonly("precondition_seconds", &Report::precondition_seconds)
        .def_readonly("products", &Report::products)
        .def_readonly("preconditionings", &Report::preconditionings)
        .def_readonly("pieces", &Report::pieces)
        .def_readonly("resident", &Report::resident)
        .def_readonly("chained", &Report::chained)
        .def_readonly("residuals", &Report::residuals);
    py::class_<SolverReports>(module, "SolverReports", "How the solves of all columns went.")
        .def("__len__", [](const SolverReports& reports) { return reports.of_columns.size(); })
        .def(
            "__iter__",
            [](const SolverReports& reports) {
                return py::make_iterator(reports.of_columns.begin(), reports.of_columns.end());
            },
            py::keep_alive<0, 1>())
        .def(
            "__getitem__",
            [](const SolverReports& reports, std::size_t column) -> const Report& {
                if (column >= reports.of_columns.size()) throw py::index_error();
                return reports.of_columns[column];
            },
            py::arg("column"), py::return_value_policy::reference_internal)
        .def(
            "numbers",
            [](const SolverReports& reports, const std::string& name) {
                using Number = double (*)(const Report&);
                static const std::map<std::string, Number> numbers{
                    {"iterations", [](const Report& of) { return double(of.iterations); }},
                    {"products", [](const Report& of) { return double(of.products); }},
                    {"preconditionings", [](const Report& of) { return double(of.preconditionings); }},
                    {"true_residual", [](const Report& of) { return of.true_residual; }},
                    {"goal", [](const Report& of) { return of.goal; }}};
                py::array_t<double> made(static_cast<py::ssize_t>(reports.of_columns.size()));
                std::ranges::transform(reports.of_columns, made.mutable_data(), numbers.at(name));
                return made;
            },
            py::arg("name"), "A number of all columns.")
        .def(
            "failed",
            [](const SolverReports& reports) {
                std::vector<std::size_t> failed;
                for (std::size_t j = 0; j < reports.of_columns.size(); ++j) {
                    const Status status = reports.of_columns[j].status;
                    if (status != Status::kConverged && status != Status::kLeastSquares) failed.push_back(j);
                }
                return failed;
            },
            "The columns without a solution.");
}

}  // namespace

void register_solvers(py::module_& module) {
    module.def(
        "resident_shape",
        [](std::int64_t rows, std::int64_t entries, std::int64_t longest_row) {
            const auto shape = resident_shape(rows, entries, longest_row);
            return shape ? std::optional(std::tuple(shape->blocks, shape->rows_per_block, shape->lanes)) : std::nullopt;
        },
        py::arg("rows"), py::arg("entries"), py::arg("longest_row"),
        "(blocks, rows of a block, lanes of a row) of the kernel that solves such a system alone; None: several do.");
    module.def(
        "most_rows_of_batch", [] { return BatchTuning::kMaxRows; },
        "Most rows of a system of a batch that one block of a GPU's threads, or one core, solves.");
    module.def("solver_names", &method_names, "The solvers that solve() knows.");
    register_limits_and_report(module);
    register_solve(module);
}

}  // namespace spmvgpu
