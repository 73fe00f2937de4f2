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

// Predictions for every format. The device of the model need not be present.
std::vector<Prediction> predict(AnySource& source, const std::shared_ptr<const DeviceModel>& model, int ordinal,
                                Steps& steps);

// Predictions for the formats that are considered and whose times are known. In mode full, which tries all, or if no
// times are known, the others are included without times. They are for the options that a format chooses for the
// matrix, and with `budget` also for others that are nearly as good, but not for formats that are not worth a plan.
std::vector<Prediction> predict_considered(AnySource& source, const std::shared_ptr<const DeviceModel>& model,
                                           const FormatRequest& request, const Budget* budget, Steps& steps);

// The ranking of a request. The model is used only if needs_predictions().
Ranking rank(AnySource& source, const std::shared_ptr<const DeviceModel>& model, const FormatRequest& request,
             Steps& steps);

}  // namespace spmvgpu
