// Planning in one step: from a matrix and a request to ranked candidates.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "planning/choose.hpp"
#include "planning/roofline.hpp"
#include "planning/source.hpp"

namespace spmvgpu {

// What a profile says of a device, for values of one type.
struct DeviceModel {
    std::shared_ptr<const roofline::Model> times;
    std::vector<std::optional<double>> errors;   // of the predictions of its variants; none if it is unknown
    double launch_us = 0, memory_bandwidth = 1;  // in bytes per second
};

// Predictions for every kernel of every format. The device that the model is of need not be here.
std::vector<Prediction> predict(AnySource& source, const DeviceModel& model, int ordinal, Steps& steps);

// Predictions for the formats that are considered and that the model has times of; without times for the others in mode
// full, which tries them, or if the model knows none. Of a format with several kernels the one that the format takes
// for the matrix is predicted. With `budget`, what is not worth a plan is left out.
std::vector<Prediction> predict_considered(AnySource& source, const DeviceModel& model, const Request& request,
                                           const Budget* budget, Steps& steps);

// The ranking of a request. The model is used only if needs_predictions().
Ranking rank(AnySource& source, const DeviceModel* model, const Request& request, Steps& steps);

}  // namespace spmvgpu
