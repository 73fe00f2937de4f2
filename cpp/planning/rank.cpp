#include "planning/rank.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <set>
#include <string>

#include "core/errors.hpp"
#include "core/parallel.hpp"

namespace spmvgpu {

namespace {

constexpr char kNotKnown[] = "the profile of the device has no times of this format; tune='full' tries it";

// A format that stores values once is faster where values are most of what a product reads: in large matrices whose
// entries read x from few sectors. Few values are so many different ones among those that features are found from.
constexpr index_t kLargeEntries = 1 << 20, kFewValues = 64;
constexpr double kSectorsTogether = 0.25;

// Below so many entries a product on the CPU takes less time than the look at the rows.
constexpr index_t kLeastEntriesOnCpu = 100'000;
// The CPU multiplies runs of eight rows side by side, and shorter runs row by row.
constexpr double kLeastAlike = 7.0 / 8;

bool has_few_values(AnySource& source, Steps& steps) {
    if (!source.device().is_gpu() || source.any().nnz < kLargeEntries) return false;
    const Features& found = timed(steps, "features", "", [&]() -> const Features& { return source.features(); });
    return found.run_sectors <= kSectorsTogether && found.different_values <= kFewValues;
}

// Whether a plan has made the choices that are a variant's options.
bool has_options(const MatrixPlan& plan, const Options& options) {
    return std::ranges::all_of(options, [&](const auto& option) {
        return std::ranges::any_of(plan.options, [&](const OptionInfo& taken) {
            return taken.name == option.first && taken.value == option.second;
        });
    });
}

// The kernels of a format that are predicted together, by their places in the model; none where the model has none.
struct Kernels {
    std::string format;
    std::vector<std::size_t> variants;
    double least_us = 0;
};

class Predictor {
public:
    using IsWorthAPlan = std::function<bool(const Kernels&, std::optional<double> error, const Prediction& best)>;

    Predictor(AnySource& source, const DeviceModel& model, int ordinal, Steps& steps)
        : source_(source),
          model_(model),
          machine_(model.times->machine()),
          target_{machine_.is_gpu ? Device{std::max(ordinal, 0)} : Device{},
                  machine_.is_gpu ? machine_.processors : max_threads()},
          steps_(steps),
          case_(model.times, timed(steps, "features", "", [&]() -> const Features& { return source.features(); }),
                target_.processors) {}

    std::vector<std::size_t> variants_of(const std::string& format) const {
        std::vector<std::size_t> places;
        const auto& variants = model_.times->variants();
        for (std::size_t place = 0; place < variants.size(); ++place) {
            if (variants[place].format == format) places.push_back(place);
        }
        return places;
    }

    // In the order of the least times, where there is a need to know them.
    std::vector<Prediction> predict(std::vector<Kernels> asked, const IsWorthAPlan& is_worth) const {
        if (is_worth) {
            for (Kernels& kernels : asked) kernels.least_us = least_us(kernels.variants);
        }
        std::ranges::stable_sort(asked, {}, &Kernels::least_us);
        std::vector<Prediction> predictions;
        std::optional<Prediction> best;
        std::set<std::string> refusing;  // with every kernel alike
        for (const Kernels& kernels : asked) {
            if (refusing.contains(kernels.format)) continue;
            if (best && is_worth && !is_worth(kernels, largest_error(kernels.variants), *best)) continue;
            Prediction prediction = of(kernels);
            if (!prediction.time_us) refusing.insert(kernels.format);
            if (prediction.time_us && (!best || *prediction.time_us < *best->time_us)) best = prediction;
            predictions.push_back(std::move(prediction));
        }
        return predictions;
    }

private:
    const Options& options_of(std::size_t variant) const { return model_.times->variants()[variant].options; }
    double least_us(const std::vector<std::size_t>& variants) const {
        double least = variants.empty() ? 0 : std::numeric_limits<double>::infinity();
        for (const std::size_t place : variants) least = std::min(least, case_.least_time_us(place, target_.device));
        return least;
    }
    std::optional<double> largest_error(const std::vector<std::size_t>& variants) const {
        std::optional<double> largest;
        for (const std::size_t place : variants) largest = std::max(largest, model_.errors[place]);  // none is less
        return largest;
    }

    Prediction of(const Kernels& kernels) const {
        Prediction prediction;
        prediction.format = kernels.format;
        if (kernels.variants.size() == 1) prediction.options = options_of(kernels.variants.front());
        std::shared_ptr<const MatrixPlan> plan;
        try {
            plan = timed(steps_, "plan", kernels.format,
                         [&] { return source_.plan(kernels.format, prediction.options, target_); });
        } catch (const FormatError& refused) {
            prediction.options.clear();
            prediction.note = refused.what();
            return prediction;
        }
        prediction.bytes = plan->cost.bytes;
        prediction.padding = plan->cost.padding();
        if (kernels.variants.empty()) {
            prediction.note = kNotKnown;
            return prediction;
        }
        const auto taken = std::ranges::find_if(
            kernels.variants, [&](std::size_t place) { return has_options(*plan, options_of(place)); });
        const std::size_t place = taken == kernels.variants.end() ? kernels.variants.front() : *taken;
        prediction.time_us = case_.time_us(place, *plan);
        prediction.error = model_.errors[place];
        return prediction;
    }

    AnySource& source_;
    const DeviceModel& model_;
    const roofline::Machine& machine_;
    Target target_;
    Steps& steps_;
    roofline::Case case_;
};

}  // namespace

std::vector<Prediction> predict(AnySource& source, const DeviceModel& model, int ordinal, Steps& steps) {
    const Predictor predictor(source, model, ordinal, steps);
    std::vector<Kernels> asked;
    for (const FormatInfo& format : list_formats()) {
        const auto variants = predictor.variants_of(format.name);
        for (const std::size_t place : variants) asked.push_back({format.name, {place}});
        if (variants.empty()) asked.push_back({format.name, {}});
    }
    return predictor.predict(std::move(asked), {});
}

std::vector<Prediction> predict_considered(AnySource& source, const DeviceModel& model, const Request& request,
                                           const Budget* budget, Steps& steps) {
    const Predictor predictor(source, model, request.device.ordinal, steps);
    std::vector<Kernels> asked;
    for (const std::string& format : formats_to_consider(request))
        asked.push_back({format, predictor.variants_of(format)});
    const auto is_unknown = [](const Kernels& kernels) { return kernels.variants.empty(); };
    if (request.mode != Mode::kFull && !std::ranges::all_of(asked, is_unknown)) std::erase_if(asked, is_unknown);
    if (budget == nullptr) return predictor.predict(std::move(asked), {});
    return predictor.predict(
        std::move(asked), [&](const Kernels& kernels, std::optional<double> error, const Prediction& best) {
            return is_worth_a_plan(request, *budget, kernels.format, kernels.least_us, error, best);
        });
}

Ranking rank(AnySource& source, const DeviceModel* model, const Request& asked, Steps& steps) {
    const index_t nnz = source.any().nnz;
    Budget budget = budget_of(asked, nnz);
    budget.start_clock();
    if (asked.format != "auto") return rank_options(asked);
    if (!needs_predictions(asked, nnz)) {
        if (asked.device.is_gpu()) return rank_small();
        return rank_on_cpu(nnz >= kLeastEntriesOnCpu && source.share_like_next() >= kLeastAlike);
    }
    Request request = asked;
    request.has_few_values = has_few_values(source, steps);
    const bool is_bounded = request.mode != Mode::kFull;
    auto predictions = predict_considered(source, *model, request, is_bounded ? &budget : nullptr, steps);
    // Without the copy in CSR on a GPU there may be room for the matrix, which is planned in host memory then.
    const bool has_last_resort = !source.device().is_gpu();
    return rank_predictions(std::move(predictions), request, budget, has_last_resort);
}

}  // namespace spmvgpu
