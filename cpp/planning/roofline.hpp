// The library's own model: a product takes as long as what it moves and waits for takes.
//
// The time of a format is a sum of terms (or their p-norm, where they overlap): a launch, bytes from memory and from
// the cache, sectors of x from the L1, the L2 and memory, entries, slots and rows walked, and the longest chain of
// dependent loads. What a term counts follows from the matrix and the format's layout and is found here; what it costs
// is fitted on the calibration samples, in Python. What remains is taken from the samples most like the matrix.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/csr_matrix.hpp"
#include "core/mutex.hpp"
#include "core/options.hpp"
#include "core/types.hpp"
#include "formats/format.hpp"
#include "planning/features.hpp"

namespace spmvgpu::roofline {

// THE list of terms, with their names in profiles. In millions, but for launches, loads that wait for each other, and
// what is there or is not.
#define SPMVGPU_FOR_TERMS(MACRO)                                                                    \
    MACRO(kLaunch, "launch")    /* one */                                                           \
    MACRO(kMemory, "memory")    /* bytes that come from memory */                                   \
    MACRO(kCache, "cache")      /* and from the last cache before it */                             \
    MACRO(kXMemory, "x_memory") /* sectors of x, likewise */                                        \
    MACRO(kXCache, "x_cache")                                                                       \
    MACRO(kXBlock, "x_block") /* and from there to the threads of a block, */                       \
    MACRO(kXLoads, "x_loads") /* and to those of a warp */                                          \
    MACRO(kXChain, "x_chain") /* entries of the longest row, as far as their sectors of x differ */ \
    MACRO(kChain, "chain")    /* loads that wait for each other */                                  \
    MACRO(kDepth, "depth")    /* and those of a sum over the longest row */                         \
    MACRO(kThreads, "threads")                                                                      \
    MACRO(kSteps, "steps") /* of warps */                                                           \
    MACRO(kEntries, "entries")                                                                      \
    MACRO(kSlots, "slots")                                                                          \
    MACRO(kRows, "rows")                                                                            \
    MACRO(kRounds, "rounds")                                                                        \
    MACRO(kIndices, "indices")          /* bytes beside values */                                   \
    MACRO(kChanges, "changes")          /* rows that are unlike the one before */                   \
    MACRO(kPermuted, "permuted")        /* rows that are stored out of their order */               \
    MACRO(kLaunches, "launches")        /* whether there is a second kernel, */                     \
    MACRO(kEmpty, "empty")              /* an empty row, */                                         \
    MACRO(kCut, "cut")                  /* a row that several warps share */                        \
    MACRO(kWake, "wake")                /* or, on the CPU, a second thread */                       \
    MACRO(kSharedCache, "shared_cache") /* bytes from a cache that all threads share */

#define SPMVGPU_TERM(id, name) id,
enum Term { SPMVGPU_FOR_TERMS(SPMVGPU_TERM) kTermCount };
#undef SPMVGPU_TERM
#define SPMVGPU_TERM(id, name) name,
inline constexpr std::array<const char*, kTermCount> kTermNames = {SPMVGPU_FOR_TERMS(SPMVGPU_TERM)};
#undef SPMVGPU_TERM
using Terms = std::array<double, kTermCount>;

// What the terms depend on of a device.
struct Machine {
    bool is_gpu = false;
    double cache_bytes = 1;       // of the last cache before memory
    int processors = 1;           // that a product is for
    int measured_processors = 1;  // that the costs were measured with
};

// What a plan says of a matrix in a format: options, all chosen, and counts as they are named there.
struct Stored {
    double bytes = 0, slots = 0, padding = 1;
    int lanes_per_row = 1, threads_per_row = 1, warps_per_slice = 1, sigma = 1;
    double rounds = 0, longest_rounds = 0, changes = 0, block = 0;
    double coo_entries = -1;  // below 0 where nothing is stored as coo

    void set_option(std::string_view name, std::int64_t value);
    void set_count(std::string_view name, double value);
};
Stored stored_by(const Cost& cost, const std::vector<OptionInfo>& options);

struct Subject {
    Features features;
    int item_bytes = 8;  // of a value
    Machine machine;
};

// What a product of a variant moves and waits for; the name is that of its format, with its options.
Terms terms_of(const std::string& name, const Subject& subject, const Stored& stored);

// Where a matrix lies among others, for finding those most like it: distances of 1 are near.
using Point = std::array<double, 8>;
Point point_of(const Features& features);

// A format with options that make a kernel of its own of it, and the cost of its terms.
struct Variant {
    std::string format, name;       // the name has the options, too
    double norm = 1;                // the p of the p-norm that joins the terms
    Terms costs{};                  // microseconds per unit
    std::vector<double> residuals;  // logarithm of measured over what the terms say, by sample; NaN where unknown

    double time_us(const Terms& terms) const;
};

// How much each sample says of a matrix at a point, and the factor by which those like it take longer than their terms
// say, which is drawn towards 1 where there are few.
std::vector<double> weights_at(const Point& point, const std::vector<Point>& places);
double correction(const std::vector<double>& weights, const std::vector<double>& residuals);

// A symmetric band of dense blocks, which all formats store with hardly any padding.
template <class T>
CsrMatrix<T> band_of_blocks(index_t block);

// What a format stores of it, nothing if it does not hold it; and how many entries the band has.
struct StoredBand {
    Stored stored;
    double entries = 1;
};
using PlanBand = StoredBand (*)(const std::string& format, index_t block, const Target& target);

// The variants of a device for values of one type.
class Model {
public:
    Model(const Machine& machine, int item_bytes, PlanBand plan_band, std::vector<Variant> variants,
          std::vector<Point> places);

    const Machine& machine() const { return machine_; }
    int item_bytes() const { return item_bytes_; }
    const std::vector<Variant>& variants() const { return variants_; }
    const std::vector<Point>& places() const { return places_; }

    // What a format stores of a band, per entry of it.
    Stored of_band(const std::string& format, index_t block, const Target& target) const;

private:
    Machine machine_;
    int item_bytes_;
    PlanBand plan_band_;
    std::vector<Variant> variants_;
    std::vector<Point> places_;
    mutable Mutex mutex_;
    mutable std::map<std::tuple<std::string, index_t, int>, Stored> bands_;
};

// A matrix before the model of a device with so many processors.
class Case {
public:
    Case(std::shared_ptr<const Model> model, const Features& features, int processors);

    // Microseconds of a product of a variant, by its place among the model's, as stored.
    double time_us(std::size_t variant, const Stored& stored) const;

    // And what it takes at least, if the matrix suits it as well as its features allow: it says of many formats that
    // they need not be planned, which takes passes over the matrix.
    double least_time_us(std::size_t variant, Device device) const;

private:
    std::shared_ptr<const Model> model_;
    Subject subject_;
    std::vector<double> corrections_;
};

}  // namespace spmvgpu::roofline
