#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <tuple>

#include "bindings/bindings.hpp"
#include "bindings/plans.hpp"
#include "bindings/value_types.hpp"
#include "planning/rank.hpp"

namespace py = pybind11;

namespace spmvgpu {

namespace {

using roofline::Machine;

std::shared_ptr<DeviceModel> make_model(const Machine& machine, const py::dtype& dtype,
                                        const std::map<std::string, std::pair<double, std::optional<double>>>& given) {
    std::map<std::string, roofline::Measured> formats;
    for (const auto& [format, measured] : given) formats[format] = {measured.first, measured.second};
    return with_value_type(dtype, [&]<class T>() -> std::shared_ptr<DeviceModel> {
        return std::make_shared<roofline::ModelOf<T>>(machine, formats);
    });
}

// Rates that a profile does not name keep the values of the default device.
times::Rates rates_named(const std::map<std::string, double>& given) {
    times::Rates rates = times::rates_of_one();
    for (int rate = 0; rate < times::kRateCount; ++rate) {
        const auto found = given.find(times::kRateNames[rate]);
        if (found != given.end()) rates[rate] = found->second;
    }
    return rates;
}

}  // namespace

void register_roofline(py::module_& module) {
    py::class_<Machine>(module, "Machine", "Properties of a device in the terms of the roofline model.")
        .def(py::init([](bool is_gpu, double cache_bytes, int processors, const std::map<std::string, double>& rates) {
                 return Machine{processors, cache_bytes, is_gpu, processors, rates_named(rates)};
             }),
             py::arg("is_gpu"), py::arg("cache_bytes"), py::arg("processors"), py::arg("rates"));
    module.def("list_rates",
               [] { return std::vector<std::string>(times::kRateNames.begin(), times::kRateNames.end()); });
    py::class_<MatrixPlan, std::shared_ptr<MatrixPlan>>(module, "Plan", "The plan of a format for a matrix.")
        .def_property_readonly("options", [](const MatrixPlan& plan) { return named(plan.options); })
        .def_property_readonly("bytes", [](const MatrixPlan& plan) { return plan.cost.bytes; })
        .def_property_readonly("padding", [](const MatrixPlan& plan) { return plan.cost.padding(); })
        .def_property_readonly("slots", [](const MatrixPlan& plan) { return plan.cost.slots; })
        .def_property_readonly("launches", [](const MatrixPlan& plan) { return plan.cost.launches; })
        .def_property_readonly("gathers", [](const MatrixPlan& plan) { return plan.cost.gathers; })
        .def_readonly("counts", &MatrixPlan::counts);
    module.def(
        "roofline_time_us",
        [](const Features& features, int item_bytes, const Machine& machine, const MatrixPlan& plan) {
            return plan.time_of({features, item_bytes, machine}, plan, {}).us;
        },
        py::arg("features"), py::arg("item_bytes"), py::arg("machine"), py::arg("plan"),
        "Microseconds of a product as planned, on a device with these rates.");
    module.def(
        "run_sectors",
        [](const Features& features, int item_bytes, const Machine& machine) {
            return times::Work(features, item_bytes, machine).run_sectors();
        },
        py::arg("features"), py::arg("item_bytes"), py::arg("machine"),
        "Sectors of x per entry that a device reads from beyond its L1.");
    py::class_<DeviceModel, std::shared_ptr<DeviceModel>>(module, "RooflineModel", "A device, for values of one type.")
        .def(py::init(&make_model), py::arg("machine"), py::arg("dtype"), py::arg("formats"),
             "`formats`: by name, how many times as long as the rates say products take, and the error of "
             "predictions, or None if it is unknown.")
        .def(
            "least_time_us",
            [](const DeviceModel& model, const Features& features, const std::string& format, int ordinal) {
                return model.least_time_us({features, model.item_bytes(), model.machine()}, format, Device{ordinal});
            },
            py::arg("features"), py::arg("format"), py::arg("ordinal"),
            "A lower bound of the time of a product in a format, if the matrix suits it.");
}

}  // namespace spmvgpu
