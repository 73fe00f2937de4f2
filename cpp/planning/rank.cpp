#include "planning/rank.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <string>

#include "core/errors.hpp"
#include "core/parallel.hpp"
#include "matrix/conversion.hpp"

namespace spmvgpu {

namespace {

constexpr char kNotKnown[] = "no product of this format was ever timed; tune='full' tries it";

// Other options of a format are worth a trial if their predicted time is within this factor of its own choice's.
constexpr double kNearOptions = 1.15;

// A format that stores values once is faster if values are most of the bytes of a product: in large matrices whose
// entries read x from few sectors. kFewValues is the number of distinct ones in the sample of the features.
constexpr index_t kLargeEntries = 1 << 20, kFewValues = 64;
constexpr double kSectorsTogether = 0.25;

bool has_few_values(AnySource& source, Steps& steps) {
    if (!source.device().is_gpu() || source.any().nnz < kLargeEntries) return false;
    const Features& found = timed(steps, "features", "", [&]() -> const Features& { return source.features(); });
    return found.run_sectors <= kSectorsTogether && found.different_values <= kFewValues;
}

// The first promise of a sample of the rows that a plan of the whole matrix keeps.
std::optional<Promised> kept_promise(AnySource& source, const Target& target, Steps& steps) {
    if (source.any().nnz < kLeastEntriesOnCpu) return {};
    const RowSample sample = timed(steps, "features", "", [&] { return source.row_sample(); });
    for (Promised& promised : promises_on_cpu(sample)) {
        const auto& [format, promise] = promised;
        try {
            const auto plan = timed(steps, "plan", format, [&] { return source.plan(format, {}, target); });
            if (is_kept(promise, plan->cost)) return std::move(promised);
        } catch (const FormatError&) {  // the matrix differs from the sample
        } catch (const OutOfMemory&) {
        }
    }
    return {};
}

// Formats in the order of their lower bounds, predicted as far as necessary.
struct LowerBound {
    std::string format;
    double least_us = 0;
};

class Predictor {
public:
    using IsWorthAPlan = std::function<bool(const LowerBound&, std::optional<double> error, const Prediction& best)>;

    Predictor(AnySource& source, std::shared_ptr<const DeviceModel> model, int ordinal, Steps& steps)
        : source_(source),
          model_(model),
          target_{model->machine().is_gpu ? Device{std::max(ordinal, 0)} : Device{},
                  model->machine().is_gpu ? model->machine().processors : max_threads()},
          steps_(steps),
          case_(model, timed(steps, "features", "", [&]() -> const Features& { return source.features(); }),
                target_.processors) {}

    std::vector<Prediction> predict(const std::vector<std::string>& formats, const IsWorthAPlan& is_worth,
                                    bool with_near_options) const {
        std::vector<LowerBound> all;
        for (const std::string& format : formats) {
            all.push_back({format, is_worth ? case_.least_time_us(format, target_.device) : 0});
        }
        std::ranges::stable_sort(all, {}, &LowerBound::least_us);
        std::vector<Prediction> predictions;
        std::optional<Prediction> best;
        for (const LowerBound& asked : all) {
            if (best && is_worth && !is_worth(asked, model_->of(asked.format).error, *best)) continue;
            const std::vector<Prediction> found = of(asked.format, with_near_options);
            const Prediction& own = found.front();
            if (own.time_us && (!best || *own.time_us < *best->time_us)) best = own;
            predictions.insert(predictions.end(), found.begin(), found.end());
        }
        return predictions;
    }

private:
    // Predictions for the options that the format chooses, and for others that are predicted to be nearly as good.
    std::vector<Prediction> of(const std::string& format, bool with_near_options) const {
        Prediction own;
        own.format = format;
        std::shared_ptr<const MatrixPlan> plan;
        try {
            plan = timed(steps_, "plan", format, [&] { return source_.plan(format, {}, target_); });
        } catch (const FormatError& refused) {
            own.note = refused.what();
            return {own};
        }
        own.bytes = plan->cost.bytes;
        own.padding = plan->cost.padding();
        if (!model_->is_known(format)) {
            own.note = kNotKnown;
            return {own};
        }
        own.time_us = case_.time_us(format, *plan);
        own.parts_us = case_.parts_us(format, *plan);
        own.error = model_->of(format).error;
        static const std::vector<FormatInfo> kFormats = list_formats();
        std::vector<Prediction> found = {own};
        if (!with_near_options || !target_.device.is_gpu()) return found;
        for (const FormatInfo& info : kFormats) {
            if (info.name != format) continue;
            for (const Options& options : info.candidates) {
                const bool is_taken = std::ranges::all_of(options, [&](const auto& option) {
                    return std::ranges::any_of(plan->options, [&](const OptionInfo& choice) {
                        return choice.name == option.first && choice.value == option.second;
                    });
                });
                if (is_taken) continue;
                Prediction other = own;
                other.options = options;
                other.time_us = case_.time_us(format, *plan, options);
                if (*other.time_us < kNearOptions * *own.time_us) found.push_back(std::move(other));
            }
        }
        return found;
    }

    AnySource& source_;
    std::shared_ptr<const DeviceModel> model_;
    Target target_;
    Steps& steps_;
    roofline::Case case_;
};

}  // namespace

std::vector<Prediction> predict(AnySource& source, const std::shared_ptr<const DeviceModel>& model, int ordinal,
                                Steps& steps) {
    std::vector<std::string> formats;
    for (const FormatInfo& format : list_formats()) formats.push_back(format.name);
    return Predictor(source, model, ordinal, steps).predict(formats, {}, false);
}

std::vector<Prediction> predict_considered(AnySource& source, const std::shared_ptr<const DeviceModel>& model,
                                           const FormatRequest& request, const Budget* budget, Steps& steps) {
    const Predictor predictor(source, model, request.device.ordinal, steps);
    std::vector<std::string> formats = formats_to_consider(request);
    const auto is_unknown = [&](const std::string& format) { return !model->is_known(format); };
    if (request.mode != Mode::kFull && !std::ranges::all_of(formats, is_unknown)) std::erase_if(formats, is_unknown);
    if (budget == nullptr) return predictor.predict(formats, {}, false);
    return predictor.predict(
        formats,
        [&](const LowerBound& asked, std::optional<double> error, const Prediction& best) {
            return is_worth_a_plan(request, *budget, asked.format, asked.least_us, error, best);
        },
        request.mode == Mode::kCached);
}

Ranking rank(AnySource& source, const std::shared_ptr<const DeviceModel>& model, const FormatRequest& asked,
             Steps& steps) {
    const index_t nnz = source.any().nnz;
    Budget budget = budget_of(asked, nnz);
    budget.start_clock();
    if (asked.format != "auto") return rank_options(asked);
    const bool is_gpu = asked.device.is_gpu(), is_bounded = asked.mode != Mode::kFull;
    const auto rank_sampled = [&] { return rank_on_cpu(kept_promise(source, target_of(asked.device), steps)); };
    if (!needs_predictions(asked, nnz)) return is_gpu ? rank_small() : rank_sampled();
    FormatRequest request = asked;
    request.has_few_values = has_few_values(source, steps);
    auto predictions = predict_considered(source, model, request, is_bounded ? &budget : nullptr, steps);
    // Without the copy in CSR on a GPU the matrix may fit, and is then planned in host memory.
    const bool has_last_resort = !source.device().is_gpu();
    Ranking ranking = rank_predictions(std::move(predictions), request, budget, has_last_resort);
    // On the CPU trials decide: predictions err more than formats differ.
    if (is_gpu || ranking.is_timed || !is_bounded) return ranking;
    const Candidate plain = rank_on_cpu({}).candidates.front();
    if (ranking.candidates.front().format == plain.format) return rank_sampled();
    return {true, {plain, {ranking.candidates.front().format, ranking.candidates.front().options, {}}}};
}

}  // namespace spmvgpu
