#include "planning/roofline.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace spmvgpu::roofline {

Point point_of(const Features& features) {
    const double mean = std::max(features.mean, 0.1), lengths = std::max(features.mean, 1.0);
    return {std::log(std::max<double>(features.nnz, 1)),
            0.7 * std::log(std::max<double>(features.cols, 1)),
            std::log(mean),
            std::log(1 + features.longest / lengths),
            2 * std::log1p(features.deviation / lengths),
            2 * std::log(std::max(features.run_sectors, 0.01)),
            2 * std::log(std::max(features.warp_sectors[0], 0.01)),
            2 * std::log(std::max(features.warp_sectors[5], 0.01))};
}

double Variant::time_us(const Terms& terms) const {
    double total = 0;
    for (int term = 0; term < kTermCount; ++term) {
        const double cost = costs[term] * terms[term];
        if (cost > 0) total += norm == 1 ? cost : std::pow(cost, norm);
    }
    return norm == 1 ? total : std::pow(total, 1 / norm);
}

std::vector<double> weights_at(const Point& point, const std::vector<Point>& places) {
    constexpr double kReach = 1.0;
    std::vector<double> weights;
    weights.reserve(places.size());
    for (const Point& place : places) {
        double away = 0;
        for (std::size_t i = 0; i < point.size(); ++i) away += (place[i] - point[i]) * (place[i] - point[i]);
        weights.push_back(std::exp(away / (-2 * kReach * kReach)));
    }
    return weights;
}

double correction(const std::vector<double>& weights, const std::vector<double>& residuals) {
    constexpr double kPriorWeight = 0.5;  // how much a residual is mistrusted
    double residual = 0, weight = kPriorWeight;
    for (std::size_t i = 0; i < weights.size(); ++i) {
        if (std::isnan(residuals[i])) continue;
        residual += weights[i] * residuals[i];
        weight += weights[i];
    }
    return std::exp(residual / weight);
}

Model::Model(const Machine& machine, int item_bytes, std::vector<Variant> variants, std::vector<Point> places)
    : machine_(machine), item_bytes_(item_bytes), variants_(std::move(variants)), places_(std::move(places)) {}

Case::Case(std::shared_ptr<const Model> model, const Features& features, int processors)
    : model_(std::move(model)), subject_{features, model_->item_bytes(), model_->machine()} {
    subject_.machine.processors = processors;
    const std::vector<double> weights = weights_at(point_of(features), model_->places());
    for (const Variant& variant : model_->variants()) corrections_.push_back(correction(weights, variant.residuals));
}

double Case::time_us(std::size_t variant, const MatrixPlan& plan) const {
    return model_->variants().at(variant).time_us(plan.terms(subject_, plan)) * corrections_[variant];
}

double Case::least_time_us(std::size_t variant, Device device) const {
    return model_->least_time_us(subject_, model_->variants().at(variant), device) * corrections_[variant];
}

}  // namespace spmvgpu::roofline
