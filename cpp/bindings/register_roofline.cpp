#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <tuple>

#include "bindings/bindings.hpp"
#include "bindings/plans.hpp"
#include "core/value_types.hpp"
#include "planning/rank.hpp"

namespace py = pybind11;

namespace spmvgpu {

namespace {

using roofline::Case;
using roofline::Machine;
using roofline::Terms;
using roofline::Variant;

using Places = std::vector<roofline::Point>;
// Format, options, norm, costs by the names of the terms, residuals by samples, error.
using GivenVariant = std::tuple<std::string, Options, double, std::map<std::string, double>,
                                std::vector<std::optional<double>>, std::optional<double>>;

Terms terms_named(const std::map<std::string, double>& given) {
    Terms terms{};
    for (const auto& [name, value] : given) {
        const auto found = std::ranges::find(roofline::kTermNames, name);
        // What this version does not know of a profile costs nothing.
        if (found != roofline::kTermNames.end()) terms[found - roofline::kTermNames.begin()] = value;
    }
    return terms;
}

std::map<std::string, double> terms_of(const Features& features, int item_bytes, const Machine& machine,
                                       const MatrixPlan& plan) {
    const Terms terms = plan.terms({features, item_bytes, machine}, plan);
    std::map<std::string, double> named;
    for (int term = 0; term < roofline::kTermCount; ++term) named[roofline::kTermNames[term]] = terms[term];
    return named;
}

// The factor at each of the points.
std::vector<double> corrections(const Places& points, const Places& places, const std::vector<double>& residuals) {
    if (residuals.size() != places.size()) throw std::invalid_argument("as many residuals as places are needed");
    std::vector<double> found;
    for (const roofline::Point& point : points) {
        found.push_back(roofline::correction(roofline::weights_at(point, places), residuals));
    }
    return found;
}

std::shared_ptr<DeviceModel> make_model(const Machine& machine, const std::string& value_type,
                                        const std::vector<GivenVariant>& given, const Places& places, double launch_us,
                                        double memory_bandwidth) {
    auto made = std::make_shared<DeviceModel>();
    made->launch_us = launch_us;
    made->memory_bandwidth = memory_bandwidth;
    std::vector<Variant> variants;
    for (const auto& [format, options, norm, costs, residuals, error] : given) {
        if (residuals.size() != places.size()) throw std::invalid_argument("as many residuals as places are needed");
        Variant variant{format, options, norm, terms_named(costs), {}};
        for (const auto& residual : residuals) {
            variant.residuals.push_back(residual.value_or(std::numeric_limits<double>::quiet_NaN()));
        }
        variants.push_back(std::move(variant));
        made->errors.push_back(error);
    }
#define MAKE_IF_ASKED(T)                 \
    if (value_type == value_suffix<T>()) \
        made->times = std::make_shared<roofline::ModelOf<T>>(machine, std::move(variants), places);
    SPMVGPU_FOR_VALUE_TYPES(MAKE_IF_ASKED)
#undef MAKE_IF_ASKED
    if (!made->times) throw std::invalid_argument("there is no value type '" + value_type + "'");
    return made;
}

}  // namespace

void register_roofline(py::module_& module) {
    py::class_<Machine>(module, "Machine", "What the terms of the roofline model depend on of a device.")
        .def(py::init([](bool is_gpu, double cache_bytes, int processors, int measured_processors) {
                 return Machine{is_gpu, cache_bytes, processors, measured_processors};
             }),
             py::arg("is_gpu"), py::arg("cache_bytes"), py::arg("processors"), py::arg("measured_processors"));
    py::class_<MatrixPlan, std::shared_ptr<MatrixPlan>>(module, "Plan", "What a format would do with a matrix.")
        .def_property_readonly("options", [](const MatrixPlan& plan) { return named(plan.options); })
        .def_property_readonly("bytes", [](const MatrixPlan& plan) { return plan.cost.bytes; })
        .def_property_readonly("padding", [](const MatrixPlan& plan) { return plan.cost.padding(); })
        .def_property_readonly("slots", [](const MatrixPlan& plan) { return plan.cost.slots; })
        .def_property_readonly("launches", [](const MatrixPlan& plan) { return plan.cost.launches; })
        .def_property_readonly("gathers", [](const MatrixPlan& plan) { return plan.cost.gathers; })
        .def_readonly("counts", &MatrixPlan::counts);
    module.def("roofline_terms", &terms_of, py::arg("features"), py::arg("item_bytes"), py::arg("machine"),
               py::arg("plan"), "What a product moves and waits for, as planned, by name.");
    module.def(
        "roofline_point", [](const Features& features) { return roofline::point_of(features); }, py::arg("features"),
        "Where a matrix lies among others, for finding those most like it.");
    module.def("roofline_corrections", &corrections, py::arg("points"), py::arg("places"), py::arg("residuals"),
               "By what factor samples at places take longer than their terms say, at each of some points.");
    py::class_<Case>(module, "RooflineCase", "A matrix before the model of a device.")
        .def("time_us", &Case::time_us, py::arg("variant"), py::arg("plan"),
             "Microseconds of a product of a variant, as planned.")
        .def(
            "least_time_us",
            [](const Case& asked, std::size_t variant, int ordinal) {
                return asked.least_time_us(variant, Device{ordinal});
            },
            py::arg("variant"), py::arg("ordinal"), "What it takes at least, if the matrix suits it.");
    py::class_<DeviceModel, std::shared_ptr<DeviceModel>>(
        module, "RooflineModel", "The variants of a device for values of one type, with their costs.")
        .def(py::init(&make_model), py::arg("machine"), py::arg("value_type"), py::arg("variants"), py::arg("places"),
             py::arg("launch_us"), py::arg("memory_bandwidth"))
        .def(
            "case",
            [](const DeviceModel& model, const Features& features, int processors) {
                return std::make_unique<Case>(model.times, features, processors);
            },
            py::arg("features"), py::arg("processors"), "A matrix before the model.");
}

}  // namespace spmvgpu
