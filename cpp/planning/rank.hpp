// Planning in one step: from a matrix and a request to ranked candidates.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "planning/choose.hpp"
#include "planning/roofline.hpp"
#include "planning/source.hpp"

namespace spmvgpu {

using DeviceModel = roofline::Model;

// Predictions for every format. The device that the model is of need not be here.
std::vector<Prediction> predict(AnySource& source, const std::shared_ptr<const DeviceModel>& model, int ordinal,
                                Steps& steps);

// Predictions for the formats that are considered and whose times are known; without times for the others in mode full,
// which tries them, or if no times are known. They are for the options that a format takes for the matrix, and with
// `budget` for others that are nearly as good, but not of what is not worth a plan.
std::vector<Prediction> predict_considered(AnySource& source, const std::shared_ptr<const DeviceModel>& model,
                                           const Request& request, const Budget* budget, Steps& steps);

// The ranking of a request. The model is used only if needs_predictions().
Ranking rank(AnySource& source, const std::shared_ptr<const DeviceModel>& model, const Request& request, Steps& steps);

}  // namespace spmvgpu
