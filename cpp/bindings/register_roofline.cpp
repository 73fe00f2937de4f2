#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <tuple>

#include "bindings/bindings.hpp"
#include "bindings/features.hpp"
#include "core/errors.hpp"
#include "core/value_types.hpp"
#include "matrix/matrix.hpp"
#include "planning/roofline.hpp"

namespace py = pybind11;

namespace spmvgpu {

namespace {

using roofline::Case;
using roofline::Machine;
using roofline::Model;
using roofline::Stored;
using roofline::Terms;
using roofline::Variant;

using Places = std::vector<roofline::Point>;
// Format, name, norm, costs by the names of the terms, residuals by samples.
using GivenVariant =
    std::tuple<std::string, std::string, double, std::map<std::string, double>, std::vector<std::optional<double>>>;

// A plan as Python has it; see described().
Stored stored_of(const py::dict& plan) {
    Stored stored;
    stored.bytes = plan["bytes"].cast<double>();
    stored.slots = plan["slots"].cast<double>();
    stored.padding = plan["padding"].cast<double>();
    for (const auto& [name, value] : plan["counts"].cast<py::dict>()) {
        stored.set_count(name.cast<std::string_view>(), value.cast<double>());
    }
    for (const auto& [name, value] : plan["options"].cast<py::dict>()) {
        if (py::isinstance<py::int_>(value)) stored.set_option(name.cast<std::string_view>(), value.cast<int>());
    }
    return stored;
}

Terms terms_named(const std::map<std::string, double>& given) {
    Terms terms{};
    for (const auto& [name, value] : given) {
        const auto found = std::ranges::find(roofline::kTermNames, name);
        // What this version does not know of a profile costs nothing.
        if (found != roofline::kTermNames.end()) terms[found - roofline::kTermNames.begin()] = value;
    }
    return terms;
}

std::map<std::string, double> terms_of(const std::string& name, const py::dict& features, int item_bytes,
                                       const Machine& machine, const py::dict& plan) {
    const Terms terms = roofline::terms_of(name, {from_dict(features), item_bytes, machine}, stored_of(plan));
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

template <class T>
roofline::StoredBand plan_band(const std::string& format, index_t block, const Target& target) {
    const CsrMatrix<T> band = roofline::band_of_blocks<T>(block);
    try {
        const MatrixPlan plan = plan_matrix(band, format, {}, target);
        return {roofline::stored_by(plan.cost, plan.options), double(band.nnz)};
    } catch (const FormatError&) {
        return {};
    }
}

// The bytes of a value, and how a band of such is planned.
std::pair<int, roofline::PlanBand> of_value_type(const std::string& suffix) {
#define RETURN_IF_ASKED(T) \
    if (suffix == value_suffix<T>()) return {sizeof(T), &plan_band<T>};
    SPMVGPU_FOR_VALUE_TYPES(RETURN_IF_ASKED)
#undef RETURN_IF_ASKED
    throw std::invalid_argument("there is no value type '" + suffix + "'");
}

std::shared_ptr<Model> make_model(const Machine& machine, const std::string& value_type,
                                  const std::vector<GivenVariant>& given, const Places& places) {
    const auto [item_bytes, plan_band] = of_value_type(value_type);
    std::vector<Variant> variants;
    for (const auto& [format, name, norm, costs, residuals] : given) {
        if (residuals.size() != places.size()) throw std::invalid_argument("as many residuals as places are needed");
        Variant variant{format, name, norm, terms_named(costs), {}};
        for (const auto& residual : residuals) {
            variant.residuals.push_back(residual.value_or(std::numeric_limits<double>::quiet_NaN()));
        }
        variants.push_back(std::move(variant));
    }
    return std::make_shared<Model>(machine, item_bytes, plan_band, std::move(variants), places);
}

}  // namespace

void register_roofline(py::module_& module) {
    py::class_<Machine>(module, "Machine", "What the terms of the roofline model depend on of a device.")
        .def(py::init([](bool is_gpu, double cache_bytes, int processors, int measured_processors) {
                 return Machine{is_gpu, cache_bytes, processors, measured_processors};
             }),
             py::arg("is_gpu"), py::arg("cache_bytes"), py::arg("processors"), py::arg("measured_processors"));
    module.def("roofline_terms", &terms_of, py::arg("name"), py::arg("features"), py::arg("item_bytes"),
               py::arg("machine"), py::arg("plan"), "What a product of a variant moves and waits for, by name.");
    module.def(
        "roofline_point", [](const py::dict& features) { return roofline::point_of(from_dict(features)); },
        py::arg("features"), "Where a matrix lies among others, for finding those most like it.");
    module.def("roofline_corrections", &corrections, py::arg("points"), py::arg("places"), py::arg("residuals"),
               "By what factor samples at places take longer than their terms say, at each of some points.");
    py::class_<Model, std::shared_ptr<Model>>(module, "RooflineModel",
                                              "The variants of a device for values of one type, with their costs.")
        .def(py::init(&make_model), py::arg("machine"), py::arg("value_type"), py::arg("variants"), py::arg("places"))
        .def(
            "case",
            [](const std::shared_ptr<const Model>& model, const py::dict& features, int processors) {
                return std::make_unique<Case>(model, from_dict(features), processors);
            },
            py::arg("features"), py::arg("processors"), "A matrix before the model.");
    py::class_<Case>(module, "RooflineCase", "A matrix before the model of a device.")
        .def(
            "time_us",
            [](const Case& asked, std::size_t variant, const py::dict& plan) {
                return asked.time_us(variant, stored_of(plan));
            },
            py::arg("variant"), py::arg("plan"), "Microseconds of a product of a variant, as planned.")
        .def(
            "least_time_us",
            [](const Case& asked, std::size_t variant, int ordinal) {
                return asked.least_time_us(variant, Device{ordinal});
            },
            py::arg("variant"), py::arg("ordinal"), "What it takes at least, if the matrix suits it.");
}

}  // namespace spmvgpu
