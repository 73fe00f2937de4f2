// What a product of a format moves and waits for, as the model in planning/roofline.hpp wants to know it.
//
// FormatModel<F> counts it from the plans of format F. Where GeneralModel does not fit, formats/<f>/model.hpp
// specialises FormatModel and replaces the functions that differ. Each counts with the functions of Work, which know
// how kernels walk a matrix, and no format.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "core/options.hpp"
#include "formats/features.hpp"

namespace spmvgpu::roofline {

inline constexpr double kMillion = 1e6;

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

struct Subject {
    Features features;
    int item_bytes = 8;  // of a value
    Machine machine;
};

// How much of a matrix a format stores: what a plan says, or what it is at least.
struct Amount {
    double bytes = 0, slots = 0;
    double padding = 1;  // slots per entry
};

// A product with a matrix of which so much is stored.
class Work {
public:
    Work(const Subject& subject, const Amount& stored)
        : features(subject.features), stored(stored), subject_(subject), nnz_(features.nnz / kMillion) {}

    double rows() const { return std::max<index_t>(features.rows, 1); }
    double index_bytes() const { return std::max(0.0, stored.bytes - stored.slots * subject_.item_bytes); }

    // What every kernel pays for, without x and with it.
    Terms streams() const;
    Terms base() const;

    // A kernel with so many lanes a row, neighbouring rows side by side, which reads entries or slots.
    Terms by_rows(int lanes) const;
    Terms by_rows_of_slots(int lanes) const;

    // A kernel with a lane for each row of a slice, the slots of which so many warps share.
    Terms by_slices(int warps, bool is_sorted) const;

    // A kernel that walks the entries one after the other, whatever rows they lie in.
    Terms by_entries() const;

    // A kernel with a thread for each row, which reads x where it lies on whole diagonals.
    Terms by_diagonals() const;

    // On the CPU, where threads walk slots and entries row by row: as many as there are processors, or no more than so
    // many parts. One thread does it all if there is little to do.
    static constexpr std::int64_t kAnyParts = std::int64_t(1) << 40;
    Terms on_cpu(std::int64_t parts = kAnyParts) const;

    // Parts of so many rows.
    std::int64_t parts_of(int rows_of_a_part, int lanes = 1) const;
    // What the busiest thread does of what is cut into parts.
    double busiest(std::int64_t parts) const;
    // A slot that stands for an entry and its mirror image is multiplied twice.
    double multiplied() const { return stored.padding * features.nnz; }

    const Features& features;
    const Amount& stored;

private:
    bool is_serial() const;

    const Subject& subject_;
    double nnz_;  // in millions
};

template <class Format>
struct GeneralModel {
    using Plan = typename Format::Plan;

    // Options that make a kernel of its own of a GPU's product, each of which is timed and fitted alone.
    static std::vector<Options> kernels() { return {{}}; }

    static Terms on_gpu(const Work& work, const Plan&) {
        Terms terms = work.by_entries();
        terms[kSlots] = work.stored.slots / kMillion;
        return terms;
    }
    static Terms on_cpu(const Work& work, const Plan&) { return work.on_cpu(); }

    // What is known of a matrix before it is planned: whether the format may hold it; how many slots it takes at least
    // by a plan of which only what each_choice() sets is known; and the size of the dense blocks of a band that stands
    // for it.
    static bool may_hold(const Features&) { return true; }
    static double least_slots(const Features& features, const Plan&) { return features.nnz; }
    static index_t block(const Features&) { return 1; }

    // Calls visit() with everything set in the plan that is left open by its tuning, and that a time depends on.
    template <class Visit>
    static void each_choice(const Features&, Plan&, const Visit& visit) {
        visit();
    }
};

template <class Format>
struct FormatModel : GeneralModel<Format> {};

template <class Format>
Terms terms_of(const Subject& subject, const Amount& stored, const typename Format::Plan& plan) {
    const Work work(subject, stored);
    return subject.machine.is_gpu ? FormatModel<Format>::on_gpu(work, plan) : FormatModel<Format>::on_cpu(work, plan);
}

// Calls visit() with the field at each power of two up to the most.
template <class Visit>
void each_power_of_two(int& field, int most, const Visit& visit) {
    for (field = 1; field <= most; field *= 2) visit();
}

// Calls visit() with everything that a tuning of slices may choose: warps, and whether rows are sorted.
template <class Tuning, class Visit>
void each_slicing(Tuning& tuning, int most_warps, const Visit& visit) {
    constexpr int kInOrder = 1, kSorted = 16384;
    each_power_of_two(tuning.warps_per_slice, most_warps, [&] {
        for (const int sigma : {kInOrder, kSorted}) {
            tuning.sigma = sigma;
            visit();
        }
    });
}

}  // namespace spmvgpu::roofline
