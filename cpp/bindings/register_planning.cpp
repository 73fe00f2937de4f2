#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/bindings.hpp"
#include "bindings/planning.hpp"
#include "planning/rank.hpp"

namespace py = pybind11;

namespace spmvgpu {

StepTuples tuples(const Steps& steps) {
    StepTuples list;
    for (const PlanningStep& step : steps) list.emplace_back(step.name, step.format, step.seconds);
    return list;
}

namespace {

using Model = std::shared_ptr<DeviceModel>;
using PredictionTuple =
    std::tuple<std::string, Options, std::optional<double>, std::optional<std::int64_t>, std::optional<double>,
               std::optional<double>, std::string, std::map<std::string, double>>;
using PredictionTuples = std::vector<PredictionTuple>;
using CandidateTuples = std::vector<std::tuple<std::string, Options, std::string, double>>;

Mode mode_named(const std::string& name) {
    if (name == "off") return Mode::kOff;
    if (name == "cached") return Mode::kCached;
    if (name == "full") return Mode::kFull;
    throw std::invalid_argument("unknown mode '" + name + "'; the modes are: off, cached, full");
}

AnySource& untyped(const AnyCsrSource& source) {
    return source.visit([](const auto& held) -> AnySource& { return *held; });
}

PredictionTuples tuples(const std::vector<Prediction>& predictions) {
    PredictionTuples list;
    for (const Prediction& p : predictions) {
        list.emplace_back(p.format, p.options, p.time_us, p.bytes, p.padding, p.error, p.note, p.parts_us);
    }
    return list;
}

CandidateTuples tuples(const Ranking& ranking) {
    CandidateTuples list;
    for (const Candidate& c : ranking.candidates) list.emplace_back(c.format, c.options, c.reason, c.trial_us);
    return list;
}

std::tuple<bool, CandidateTuples, StepTuples> rank_source(const AnyCsrSource& given, int ordinal,
                                                          const std::string& format, const Options& options,
                                                          const std::string& mode, std::optional<bool> symmetric,
                                                          double products, double spent_us,
                                                          const py::typing::Callable<Model()>& load_model) {
    const FormatRequest request{Device{ordinal}, format, options, mode_named(mode), symmetric, products, spent_us};
    AnySource& source = untyped(given);
    Model model;
    if (needs_predictions(request, source.any().nnz)) model = call_python(load_model).cast<Model>();
    const GilRelease release;
    Steps steps;
    const Ranking ranking = rank(source, model, request, steps);
    return {ranking.is_timed, tuples(ranking), tuples(steps)};
}

std::pair<PredictionTuples, StepTuples> predict_all(const AnyCsrSource& source, int ordinal, const Model& model) {
    const GilRelease release;
    Steps steps;
    const auto predictions = predict(untyped(source), model, ordinal, steps);
    return {tuples(predictions), tuples(steps)};
}

std::pair<PredictionTuples, StepTuples> predict_some(const AnyCsrSource& given, int ordinal, const Model& model,
                                                     const std::string& mode, std::optional<bool> symmetric,
                                                     std::optional<double> products) {
    const GilRelease release;
    const FormatRequest request{Device{ordinal}, "auto", {}, mode_named(mode), symmetric, products.value_or(0)};
    AnySource& source = untyped(given);
    Steps steps;
    const Budget budget = budget_of(request, source.any().nnz);
    const auto predictions = predict_considered(source, model, request, products ? &budget : nullptr, steps);
    return {tuples(predictions), tuples(steps)};
}

std::pair<bool, CandidateTuples> rank_given(const PredictionTuples& given, std::int64_t nnz, int ordinal,
                                            const std::string& mode, double products, double spent_us,
                                            bool has_last_resort) {
    std::vector<Prediction> predictions;
    for (const PredictionTuple& entry : given) predictions.push_back(std::make_from_tuple<Prediction>(entry));
    const FormatRequest request{Device{ordinal}, "auto", {}, mode_named(mode), {}, products, spent_us};
    const Ranking ranking = rank_predictions(std::move(predictions), request, budget_of(request, nnz), has_last_resort);
    return {ranking.is_timed, tuples(ranking)};
}

}  // namespace

void register_planning(py::module_& module) {
    py::class_<AnyCsrSource>(module.attr("CsrSource"))
        .def("rank", &rank_source, py::arg("ordinal"), py::arg("format"), py::arg("options"), py::arg("mode"),
             py::arg("symmetric"), py::arg("products"), py::arg("spent_us"), py::arg("load_model"),
             "(is_timed, candidates, steps) of a request. `load_model` is called only if predictions are needed.")
        .def("predict", &predict_all, py::arg("ordinal"), py::arg("model"), "(predictions, steps) for every format.")
        .def("predict_considered", &predict_some, py::arg("ordinal"), py::arg("model"), py::arg("mode"),
             py::arg("symmetric"), py::arg("products") = py::none(),
             "(predictions, steps) for the formats that a request considers; with a budget, for what is worth a plan.")
        .def(
            "plan",
            [](const AnyCsrSource& source, const std::string& format, const Options& options, int ordinal,
               std::optional<int> processors) {
                const Device device{ordinal};
                const GilRelease release;
                return untyped(source).plan(format, options,
                                            processors ? Target{device, *processors} : target_of(device));
            },
            py::arg("format"), py::arg("options"), py::arg("ordinal"), py::arg("processors") = py::none(),
            "The plan of a format for a device: its options with every automatic choice made, and its cost. With "
            "`processors` given, the device need not be present.")
        .def(
            "features", [](const AnyCsrSource& source) { return untyped(source).features(); },
            py::call_guard<GilRelease>(), "Features of the matrix for the performance model.")
        .def_property_readonly("ordinal", [](const AnyCsrSource& source) { return untyped(source).device().ordinal; });
    module.def("rank_predictions", &rank_given, py::arg("predictions"), py::arg("nnz"), py::arg("ordinal"),
               py::arg("mode"), py::arg("products"), py::arg("spent_us"), py::arg("has_last_resort"),
               "(is_timed, candidates) by predictions.");
    module.def(
        "formats_to_consider",
        [](int ordinal, const std::string& mode, std::optional<bool> symmetric, bool has_few_values) {
            FormatRequest request{Device{ordinal}, "auto", {}, mode_named(mode), symmetric};
            request.has_few_values = has_few_values;
            return formats_to_consider(request);
        },
        py::arg("ordinal"), py::arg("mode"), py::arg("symmetric"), py::arg("has_few_values") = false,
        "The formats that format=\"auto\" considers on a device.");
    module.def(
        "takes_long_to_plan",
        [](const std::string& format, int ordinal) { return takes_long_to_plan(format, Device{ordinal}); },
        py::arg("format"), py::arg("ordinal"),
        "True if planning a format takes longer than choosing one may, on a device.");
}

}  // namespace spmvgpu
