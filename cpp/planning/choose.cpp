#include "planning/choose.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <stdexcept>
#include <utility>

#include "gpu/timing.hpp"
#include "matrix/conversion.hpp"

namespace spmvgpu {

namespace {

// The expected time of a trial on a GPU beside its products and bytes: a conversion of 200 to 400 us on an H100, and a
// graph of launches to time. Tiles of the format that needs no conversion are found in less. A trial that has begun is
// finished, so this is a high estimate.
constexpr double kConversionUs = 600, kConversionBytesPerUs = 500e3, kPlanUs = 400;
// On the CPU launches cost little.
constexpr double kConversionOnCpuUs = 200, kConversionBytesPerUsOnCpu = 2e3;

// On the CPU the sample of a matrix, plans, a conversion and trials take as long as this many products: more than the
// default budget, which so gives csr.
constexpr double kProductsOnCpu = 200;

// The expected time of an order by clusters on a GPU: launches, passes over the entries as long as products, and passes
// over the rows; see orders.json, for an H200.
constexpr double kOrderUs = 650, kOrderProducts = 4, kOrderUsPerRow = 0.8e-3;

// A format is worth a trial if its predicted time is within this factor of the best one, or as near as the two
// predictions err.
constexpr double kClose = 1.25;
constexpr std::size_t kMostTrials = 3;

// If predictions decide, another format must be predicted to take less than this share of the time of csr, which needs
// no conversion. This makes products a little faster, by the times in the benchmarks' prediction.json.
constexpr double kWorthConverting = 0.92;

constexpr double kUnknownError = 0.5;

// The format that needs no conversion, and takes the least memory to make.
constexpr char kPlain[] = "csr";
constexpr char kNothingElseFits[] = "the formats that are predicted to be faster do not fit";
constexpr char kNothingIsKnown[] = "the profile of the device has no times of any format that fits";

const std::vector<FormatInfo>& all_formats() {
    static const std::vector<FormatInfo> formats = list_formats();
    return formats;
}

const FormatInfo& format_named(const std::string& name) {
    const auto found = std::ranges::find(all_formats(), name, &FormatInfo::name);
    if (found == all_formats().end()) throw std::invalid_argument("unknown format '" + name + "'");
    return *found;
}

bool takes_long_to_plan(const Traits& traits, Device device) {
    return device.is_gpu() ? traits.has_long_plan || !traits.builds_on_gpu : traits.needs_symmetry;
}

std::string printed(const char* form, double value) {
    char text[64];
    std::snprintf(text, sizeof text, form, value);
    return text;
}

std::string with_error(const Prediction& prediction) {
    return printed("%.1f us", prediction.time_us.value_or(0)) +
           printed(" +- %.0f%%", prediction.error.value_or(0) * 100);
}

// The objective of a choice by prediction: the predicted time plus the error of such predictions; less for csr.
double risk_us(const std::string& format, double time_us, std::optional<double> error) {
    return time_us * (1 + error.value_or(kUnknownError)) * (format == kPlain ? kWorthConverting : 1.0);
}
double risk_us(const Prediction& prediction) {
    return risk_us(prediction.format, prediction.time_us.value_or(0), prediction.error);
}

// Returns true if a format with this prediction may turn out to be as fast as the best one.
bool may_be_close(double time_us, std::optional<double> error, const Prediction& best) {
    const double limit =
        std::max(kClose, (1 + best.error.value_or(kUnknownError)) * (1 + error.value_or(kUnknownError)));
    return time_us <= limit * best.time_us.value_or(0);
}

std::vector<Prediction> close_ones(const std::vector<Prediction>& possible) {
    std::vector<Prediction> close;
    for (const Prediction& prediction : possible) {
        if (close.size() == kMostTrials) break;
        if (may_be_close(*prediction.time_us, prediction.error, possible.front())) close.push_back(prediction);
    }
    return close;
}

// Why a prediction decides: the shortest time is not always the best bet. If errors are unknown, another device was
// measured, and the reason names ratios of times.
std::string reason_for(const Prediction& prediction, const Prediction& best, Device device) {
    const bool has_times = prediction.error && best.error, is_best = &prediction == &best;
    const std::string shortest = "the shortest of the formats considered", on = " on " + device.name();
    if (!has_times && is_best) return "its predicted time" + on + " is " + shortest;
    const double ratio = prediction.time_us.value_or(0) / best.time_us.value_or(1);
    std::string reason = "its predicted time is ";
    reason += has_times ? with_error(prediction) + " per product" : printed("%.2f of the shortest", ratio);
    reason += on;
    if (is_best) return reason + ", " + shortest;
    const std::string other = has_times ? with_error(best) + " for " + best.name() : "that of " + best.name();
    if (prediction.format == kPlain) return reason + ", little more than " + other + ", and it needs no conversion";
    if (risk_us(prediction) < risk_us(best)) return reason + ", a safer choice than " + other;
    return reason;
}

}  // namespace

std::string variant_name(const std::string& format, const Options& options) {
    std::string name = format;
    for (const auto& [option, value] : options) {
        name += " " + option + "=";
        if (const auto* text = std::get_if<std::string>(&value)) name += *text;
        if (const auto* whole = std::get_if<std::int64_t>(&value)) name += std::to_string(*whole);
        if (const auto* number = std::get_if<double>(&value)) name += format_number(*number);
    }
    return name;
}

double Budget::trial_us(const std::string& format, double bytes, double product_us) const {
    const double products = trial_products_ * product_us;
    if (format == kPlain) return products + (is_for_gpu_ ? kPlanUs : 0);
    if (!is_for_gpu_) return products + kConversionOnCpuUs + bytes / kConversionBytesPerUsOnCpu;
    return products + kConversionUs + bytes / kConversionBytesPerUs;
}

bool Budget::may_afford_trials(double product_us) const {
    return 2 * (kConversionUs + trial_products_ * product_us) <= left_us(product_us);
}

bool Budget::affords_order(double product_us, index_t rows) const {
    return kOrderUs + kOrderProducts * product_us + kOrderUsPerRow * rows <= all_us(product_us);
}

Budget budget_of(const FormatRequest& request, std::int64_t nnz) {
    return {request.products, request.spent_us, trial_series(request.device, nnz).launches(), request.device.is_gpu()};
}

bool needs_predictions(const FormatRequest& request, std::int64_t nnz) {
    if (request.format != "auto") return false;
    if (request.mode == Mode::kFull) return true;
    const bool lasts = request.mode == Mode::kCached && request.products >= kProductsOnCpu;
    return nnz >= kSmallEntries && (request.device.is_gpu() || lasts);
}

bool takes_long_to_plan(const std::string& format, Device device) {
    return takes_long_to_plan(format_named(format).traits, device);
}

std::vector<std::string> formats_to_consider(const FormatRequest& request) {
    const bool whatever_it_takes = request.mode == Mode::kFull;
    std::vector<std::string> names;
    for (const FormatInfo& format : all_formats()) {
        const Traits& traits = format.traits;
        bool is_considered = whatever_it_takes || !takes_long_to_plan(traits, request.device);
        if (traits.needs_few_values && !request.has_few_values) is_considered = whatever_it_takes;
        if (traits.needs_symmetry && request.symmetric) is_considered = *request.symmetric;
        if (is_considered && !traits.only_if_asked) names.push_back(format.name);
    }
    return names;
}

bool is_worth_a_plan(const FormatRequest& request, const Budget& budget, const std::string& format, double least_us,
                     std::optional<double> error, const Prediction& best) {
    const double best_us = best.time_us.value_or(0), plan_us = format_named(format).traits.plan_us;
    if (plan_us > 0 && !budget.affords_plan(plan_us, best_us)) return false;
    if (request.mode == Mode::kCached && budget.may_afford_trials(best_us)) {
        return may_be_close(least_us, error, best);
    }
    return risk_us(format, least_us, error) < risk_us(best);
}

Ranking rank_predictions(std::vector<Prediction> predictions, const FormatRequest& request, const Budget& budget,
                         bool has_last_resort) {
    std::erase_if(predictions, [](const Prediction& prediction) { return !prediction.bytes; });
    std::ranges::stable_sort(predictions, {}, [](const Prediction& prediction) {
        return prediction.time_us.value_or(std::numeric_limits<double>::infinity());
    });
    if (request.mode == Mode::kFull && !predictions.empty()) {
        Ranking every{true, {}};
        for (const Prediction& prediction : predictions) every.candidates.push_back({prediction.format, {}, {}});
        return every;
    }
    const bool is_any_possible = !predictions.empty();
    std::erase_if(predictions, [](const Prediction& prediction) { return !prediction.time_us; });
    if (predictions.empty()) return {false, {{kPlain, {}, is_any_possible ? kNothingIsKnown : kNothingElseFits}}};
    std::string more;
    const std::vector<Prediction> close = close_ones(predictions);
    if (request.mode == Mode::kCached && close.size() > 1) {
        Ranking ranking{true, {}};
        double cost = 0;
        const double left = budget.left_us(*predictions.front().time_us);
        for (const Prediction& prediction : close) {
            const double trial = budget.trial_us(prediction.format, static_cast<double>(prediction.bytes.value_or(0)),
                                                 *prediction.time_us);
            cost += trial;
            if (cost > left) break;
            ranking.candidates.push_back({prediction.format, prediction.options, {}, trial});
        }
        if (ranking.candidates.size() > 1) return ranking;  // one alone would decide nothing
        more = "; other formats may be as fast, but timing them would take longer than " +
               printed("%g", request.products) + " products";
    }
    std::vector<const Prediction*> by_risk;
    for (const Prediction& prediction : predictions) by_risk.push_back(&prediction);
    std::ranges::stable_sort(by_risk, {}, [](const Prediction* prediction) { return risk_us(*prediction); });
    Ranking ranking;
    for (const Prediction* prediction : by_risk) {
        ranking.candidates.push_back({prediction->format, prediction->options,
                                      reason_for(*prediction, predictions.front(), request.device) + more});
        has_last_resort = has_last_resort && prediction->format != kPlain;
    }
    if (has_last_resort) ranking.candidates.push_back({kPlain, {}, kNothingElseFits});
    return ranking;
}

Ranking rank_options(const FormatRequest& request) {
    return {request.mode == Mode::kFull, {{request.format, request.options, "it was asked for"}}};
}

Ranking rank_small() {
    return {false,
            {{kPlain,
              {},
              "a product with so small a matrix takes little longer than a kernel launch; tune='full' times all "
              "formats"}}};
}

std::vector<Promised> promises_on_cpu(const RowSample& sample) {
    std::vector<Promised> promises;
    for_each_format<double>([&]<class Format>() {
        auto promise = roofline::FormatModel<Format>::promise(sample);
        if (promise && promise->share <= Promise::kWorthwhile) promises.push_back({Format::kName, *std::move(promise)});
    });
    std::ranges::stable_sort(promises, {}, [](const Promised& promised) { return promised.second.share; });
    return promises;
}

bool is_kept(const Promise& promise, const Cost& cost) {
    return static_cast<double>(cost.slots) <= promise.most_slots &&
           static_cast<double>(cost.gathers) <= promise.most_gathers;
}

Ranking rank_on_cpu(const std::optional<Promised>& kept) {
    Ranking ranking;
    if (kept) ranking.candidates.push_back({kept->first, {}, kept->second.reason});
    ranking.candidates.push_back({kPlain,
                                  {},
                                  "on a CPU, csr needs no conversion; tune='full' also times the other formats, once "
                                  "for all matrices like this one"});
    return ranking;
}

}  // namespace spmvgpu
