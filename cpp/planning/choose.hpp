// The choice of a format from predicted times of products: pure functions of tables of predictions.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/options.hpp"
#include "core/types.hpp"
#include "formats/format.hpp"
#include "formats/row_sample.hpp"

namespace spmvgpu {

// A format, with the options that select a kernel of its own, as in "csr kernel=shuffle".
std::string variant_name(const std::string& format, const Options& options);

struct Prediction {
    std::string format;
    Options options;                         // options of the prediction; none where the format chooses
    std::optional<double> time_us;           // time of a product; none if it is not known, or nothing is stored
    std::optional<std::int64_t> bytes;       // on the device; none if the format cannot hold the matrix
    std::optional<double> padding;           // stored slots per non-zero, likewise
    std::optional<double> error;             // mean relative error of such predictions; none if it is unknown
    std::string note;                        // why there is no time, or a remark on it
    std::map<std::string, double> parts_us;  // microseconds of each part of the time, see times::Time

    std::string name() const { return variant_name(format, options); }
};

enum class Mode { kOff, kCached, kFull };  // time no format, a few promising ones, or all

// How to choose a format.
struct FormatRequest {
    Device device;
    std::string format = "auto";
    Options options;
    Mode mode = Mode::kCached;
    std::optional<bool> symmetric;  // whether the matrix is symmetric; none if unknown
    double products = 0;            // budget, in products
    double spent_us = 0;            // time spent before the ranking
    bool has_few_values = false;    // a large matrix with few distinct values, which are most of the bytes of a product
};

class Budget {
public:
    Budget(double products, double spent_us, int trial_products, bool is_for_gpu)
        : products_(products), spent_us_(spent_us), trial_products_(trial_products), is_for_gpu_(is_for_gpu) {}

    void start_clock() { start_ = Clock::now(); }

    // The time of a trial if the predictions hold: a conversion, and a short series of products.
    double trial_us(const std::string& format, double bytes, double product_us) const;
    // Returns true if there may be time for two trials, because one alone is of no use, with products of this time.
    bool may_afford_trials(double product_us) const;
    // Returns true if a plan of this time fits the whole budget, spent or not.
    bool affords_plan(double plan_us, double product_us) const { return plan_us <= all_us(product_us); }
    // Returns true if an order of rows and columns by clusters fits the whole budget, so that a matrix is always stored
    // in the same order.
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

Budget budget_of(const FormatRequest& request, std::int64_t nnz);

struct Candidate {
    std::string format;
    Options options;
    std::string reason;   // for the choice
    double trial_us = 0;  // expected time of a trial
};

// The candidates in order: the first one that fits on the device is chosen, or the fastest one of all. In mode full
// they are formats with their own choices of tunables.
struct Ranking {
    bool is_timed = false;
    std::vector<Candidate> candidates;
};

// A matrix with fewer entries is stored in csr on a GPU: its products take hardly longer than a kernel launch. On an
// H200 csr is then within 0.2 % of the fastest format for calibration's samples, and the model takes as long as a
// thousand products.
inline constexpr std::int64_t kSmallEntries = 1 << 17;

// A matrix with fewer entries is stored in csr on the CPU: starting the threads that convert it takes as long as many
// products.
inline constexpr index_t kLeastEntriesOnCpu = 50'000;

bool needs_predictions(const FormatRequest& request, std::int64_t nnz);

// The formats to consider. Formats for symmetric matrices are among them if the matrix may be symmetric, and on a GPU
// formats that store values once if there are few values. Formats that take long to plan are considered in mode full
// only, or if the matrix is known to be symmetric.
std::vector<std::string> formats_to_consider(const FormatRequest& request);

// Returns true if planning a format takes longer than choosing one may.
bool takes_long_to_plan(const std::string& format, Device device);

// Returns true if a format with this lower bound of its time may be tried, or chosen if there is no time for trials,
// when another is predicted as `best`. Otherwise it need not be planned.
bool is_worth_a_plan(const FormatRequest& request, const Budget& budget, const std::string& format, double least_us,
                     std::optional<double> error, const Prediction& best);

// The ranking by predictions, which come in the order for equal times. In mode full it has every format that can hold
// the matrix, and last the ones whose times are unknown. With `has_last_resort`, csr comes last if it is not
// considered, because it takes the least memory to make.
Ranking rank_predictions(std::vector<Prediction> predictions, const FormatRequest& request, const Budget& budget,
                         bool has_last_resort);

// The ranking for a requested format, whose options stay as they are.
Ranking rank_options(const FormatRequest& request);

// The ranking on a GPU without predictions.
Ranking rank_small();

using Promised = std::pair<std::string, Promise>;

// The formats on the CPU that a sample speaks for, the shortest promised time first; none where csr, which needs no
// conversion, takes little longer.
std::vector<Promised> promises_on_cpu(const RowSample& sample);

bool is_kept(const Promise& promise, const Cost& cost);

// The ranking on the CPU without predictions: the format whose promise is kept comes first.
Ranking rank_on_cpu(const std::optional<Promised>& kept);

}  // namespace spmvgpu
