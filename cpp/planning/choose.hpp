// Which format a matrix gets, once it is predicted what products take: pure functions of tables of predictions.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/options.hpp"
#include "core/types.hpp"
#include "formats/format.hpp"
#include "formats/row_sample.hpp"

namespace spmvgpu {

// A format, with the options that make a kernel of its own of it, as in "csr kernel=shuffle".
std::string variant_name(const std::string& format, const Options& options);

// What is predicted of a matrix in a format.
struct Prediction {
    std::string format;
    Options options;                    // what the prediction is for; none where the format chooses
    std::optional<double> time_us;      // of a product; none if it is not known, or nothing is stored
    std::optional<std::int64_t> bytes;  // on the device; none if the format cannot hold the matrix
    std::optional<double> padding;      // stored slots per non-zero, likewise
    std::optional<double> error;        // mean relative error of such predictions; none if it is unknown
    std::string note;                   // why there is no time, or a remark on it

    std::string name() const { return variant_name(format, options); }
};

enum class Mode { kOff, kCached, kFull };  // time no format, a few promising ones, or all

// How a format is chosen.
struct Request {
    Device device;
    std::string format = "auto";
    Options options;  // of the format
    Mode mode = Mode::kCached;
    std::optional<bool> symmetric;  // whether the matrix is; none if nobody knows
    double products = 0;            // that choosing may take the time of
    double spent_us = 0;            // of that time, before the matrix is ranked
    bool has_few_values = false;    // of a large matrix whose values are most of what a product reads
};

// The time that choosing may take.
class Budget {
public:
    Budget(double products, double spent_us, int trial_products, bool is_for_gpu)
        : products_(products), spent_us_(spent_us), trial_products_(trial_products), is_for_gpu_(is_for_gpu) {}

    // From now on time is spent.
    void start_clock() { start_ = Clock::now(); }

    // What a trial takes if all goes as predicted: a conversion, and a short series of products.
    double trial_us(const std::string& format, double bytes, double product_us) const;
    // Whether there may be time for two trials, or else there is none, of products that take so long.
    bool may_afford_trials(double product_us) const;
    // Whether a plan that takes so long is affordable, however much of the budget is spent.
    bool affords_plan(double plan_us, double product_us) const { return plan_us <= all_us(product_us); }
    // The same for an order of rows and columns by clusters. So a matrix is always stored in the same order.
    bool affords_order(double product_us, index_t rows) const;

    double left_us(double product_us) const { return all_us(product_us) - spent_us(); }

private:
    double all_us(double product_us) const { return products_ > 0 && product_us > 0 ? products_ * product_us : 0; }
    double spent_us() const {
        if (!start_) return spent_us_;
        return spent_us_ + std::chrono::duration<double, std::micro>(Clock::now() - *start_).count();
    }

    using Clock = std::chrono::steady_clock;
    double products_, spent_us_;
    int trial_products_;
    bool is_for_gpu_;
    std::optional<Clock::time_point> start_;
};

Budget budget_of(const Request& request, std::int64_t nnz);

// A way to store a matrix.
struct Candidate {
    std::string format;
    Options options;
    std::string reason;   // to choose it
    double trial_us = 0;  // that a trial is expected to take
};

// The candidates in their order: the first one that fits the device is taken, or the fastest one of all. In mode full
// they are formats as they choose their tunables themselves.
struct Ranking {
    bool is_timed = false;
    std::vector<Candidate> candidates;
};

// A matrix with fewer entries is stored in csr on a GPU: its products take hardly longer than a kernel launch. On an
// H200 csr is within 0.2 % of the fastest format then for calibration's samples, and the model takes as long as a
// thousand products.
inline constexpr std::int64_t kSmallEntries = 1 << 17;

// A matrix with fewer entries is stored in csr on the CPU: starting the threads that convert it takes as long as many
// products.
inline constexpr index_t kLeastEntriesOnCpu = 50'000;

// Whether a choice is made of predictions.
bool needs_predictions(const Request& request, std::int64_t nnz);

// The formats that are considered: those for symmetric matrices where the matrix may be symmetric, and on a GPU those
// that store values once where there are few values. Formats that take long to plan are considered in mode full only,
// or if the matrix is known to be symmetric.
std::vector<std::string> formats_to_consider(const Request& request);

// Whether planning a format takes longer than choosing one may.
bool takes_long_to_plan(const std::string& format, Device device);

// Whether a format may be tried, or chosen if there is no time for trials, when it takes at least so long and another
// is predicted as `best`. It need not be planned otherwise.
bool is_worth_a_plan(const Request& request, const Budget& budget, const std::string& format, double least_us,
                     std::optional<double> error, const Prediction& best);

// The ranking by predictions, whose order is the one in which candidates are considered at equal times. In mode full it
// has every format that can hold the matrix, and last those whose times are not known. With `has_last_resort`, csr
// comes last where it is not considered: it takes the least memory to make.
Ranking rank_predictions(std::vector<Prediction> predictions, const Request& request, const Budget& budget,
                         bool has_last_resort);

// The ranking of a format that was asked for, with options that stay as they are.
Ranking rank_options(const Request& request);

// The ranking on a GPU without predictions.
Ranking rank_small();

// A format, and what it promises.
using Promised = std::pair<std::string, Promise>;

// The format that promises the shortest time on the CPU by a sample; none where csr is as fast, which needs no
// conversion.
std::optional<Promised> promise_on_cpu(const RowSample& sample);

// Whether the plan of a format keeps the promise.
bool is_kept(const Promise& promise, const Cost& cost);

// The ranking on the CPU without predictions: first the format whose promise is kept.
Ranking rank_on_cpu(const std::optional<Promised>& kept);

}  // namespace spmvgpu
