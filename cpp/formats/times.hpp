// The time of a product on a GPU, from its traffic and its waits: formats choose their options by it.
//
// A kernel counts terms with the functions of Work; the cost of each is fitted to times on an H100 and stands beside
// the format. Terms of one group add up, and groups overlap: the time is the start-up, plus the root of the sum of
// squares of traffic, work, and waits.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <utility>

#include "formats/features.hpp"

namespace spmvgpu::times {

inline constexpr double kMillion = 1e6;

// Threads of a GPU's processor, and loads that each has in flight in CSR; together these are the loads in flight.
inline constexpr int kThreadsOfProcessor = 2048, kInFlight = 4;
constexpr std::int64_t loads_at_once(int processors) {
    return std::int64_t(kInFlight) * kThreadsOfProcessor * processors;
}

// The rates that describe a device: its time for each, relative to the reference device of the formats' costs, an H100
// or a CPU of 16 threads.
#define SPMVGPU_FOR_RATES(MACRO)                                       \
    MACRO(kRateLaunch, "launch")                                       \
    MACRO(kRateWake, "wake") /* of the threads of a CPU */             \
    MACRO(kRateMemory, "memory")                                       \
    MACRO(kRateCache, "cache")                                         \
    MACRO(kRateSharedCache, "shared_cache")                            \
    MACRO(kRateXMemory, "x_memory") /* gathers, from memory */         \
    MACRO(kRateXCache, "x_cache")   /* and from the cache before it */ \
    MACRO(kRateWork, "work")        /* instructions and the L1 */      \
    MACRO(kRateStart, "start")      /* of a block of threads */        \
    MACRO(kRateLoad, "load")        /* that is waited for */           \
    MACRO(kRateGather, "gather")    /* likewise */

#define SPMVGPU_RATE(id, name) id,
enum Rate { SPMVGPU_FOR_RATES(SPMVGPU_RATE) kRateCount };
#undef SPMVGPU_RATE
#define SPMVGPU_RATE(id, name) name,
inline constexpr std::array<const char*, kRateCount> kRateNames = {SPMVGPU_FOR_RATES(SPMVGPU_RATE)};
#undef SPMVGPU_RATE
using Rates = std::array<double, kRateCount>;

// THE list of terms, with the rate that each depends on. They count in millions, except for launches, loads, rounds and
// yes-or-no terms.
#define SPMVGPU_FOR_TERMS(MACRO)                                                                   \
    /* Before and after everything else. */                                                        \
    MACRO(kLaunch, kRateLaunch)                                                                    \
    MACRO(kWake, kRateWake)     /* whether a CPU wakes threads */                                  \
    MACRO(kEmpty, kRateLaunch)  /* whether there are empty rows */                                 \
    MACRO(kCut, kRateLoad)      /* whether blocks or warps share a row; more, of wider sums */     \
    MACRO(kXStart, kRateXCache) /* sectors of x that all threads ask for at once, to begin with */ \
    /* What moves. */                                                                              \
    MACRO(kMemory, kRateMemory)           /* bytes that come from memory */                        \
    MACRO(kCache, kRateCache)             /* and from the last cache before it, */                 \
    MACRO(kSharedCache, kRateSharedCache) /* which all threads of a CPU share */                   \
    MACRO(kXMemory, kRateXMemory)         /* sectors of x, likewise */                             \
    MACRO(kXCache, kRateXCache)                                                                    \
    MACRO(kRefetch, kRateCache)   /* sectors that the L1 lost before a thread came back to them */ \
    MACRO(kUnsorted, kRateXCache) /* entries whose rows are far apart, as they were sorted, */     \
    MACRO(kPermuted, kRateXCache) /* and their rows */                                             \
    /* What is worked. */                                                                          \
    MACRO(kLines, kRateWork)  /* of the L1 that warps ask for */                                   \
    MACRO(kXLines, kRateWork) /* those of x */                                                     \
    MACRO(kEntries, kRateWork)                                                                     \
    MACRO(kSlots, kRateWork)                                                                       \
    MACRO(kRows, kRateWork)                                                                        \
    MACRO(kChanges, kRateWork)  /* rows that are unlike the one before */                          \
    MACRO(kSums, kRateWork)     /* that warps of a slice add up */                                 \
    MACRO(kLongRows, kRateWork) /* of a tile, of more entries than its lanes are for */            \
    /* What is waited for. */                                                                      \
    MACRO(kWaves, kRateStart)    /* of blocks that fill the device, one after the other */         \
    MACRO(kDepth, kRateStart)    /* steps of a sum over lanes, in each of them */                  \
    MACRO(kRounds, kRateStart)   /* of rows of a tile */                                           \
    MACRO(kHasLong, kRateStart)  /* whether tiles have long rows */                                \
    MACRO(kSorted, kRateStart)   /* whether rows are looked up in their order */                   \
    MACRO(kLoads, kRateLoad)     /* that wait for each other */                                    \
    MACRO(kGathers, kRateGather) /* and those of x, as far as they reach beyond the L1 */

#define SPMVGPU_TERM(id, rate) id,
enum Term { SPMVGPU_FOR_TERMS(SPMVGPU_TERM) kTermCount };
#undef SPMVGPU_TERM
using Terms = std::array<double, kTermCount>;

constexpr Terms costs(std::initializer_list<std::pair<Term, double>> given) {
    Terms terms{};
    for (const auto& [term, cost] : given) terms[term] = cost;
    return terms;
}

constexpr Rates rates_of_one() {
    Rates rates;
    rates.fill(1);
    return rates;
}

// A device, a GPU by default.
struct Machine {
    int processors = 1;                       // processors for a product
    double cache_bytes = 400e3 * processors;  // capacity of the last cache before memory
    bool is_gpu = true;
    int measured_processors = processors;  // processors of the CPU that the rates were measured with
    Rates rates = rates_of_one();
};

// Microseconds of a product, and of what it consists of: traffic, work and waits overlap.
struct Time {
    double us = 0;
    double start = 0;            // before and after everything else
    double bytes = 0;            // traffic of the matrix, x and y, each read or written once
    double gathers = 0;          // further reads of x
    double work = 0, waits = 0;  // instructions; loads and sums that wait for each other
};

Time time_of(const Terms& terms, const Terms& costs, const Machine& machine);
inline double time_us(const Terms& terms, const Terms& costs, const Machine& machine) {
    return time_of(terms, costs, machine).us;
}

// The amount of a matrix that a format stores: from a plan, or a lower bound.
struct Amount {
    double bytes = 0, slots = 0;
    double padding = 1;  // slots per entry
};

// A kernel with lanes side by side that read slots of slices.
struct Slicing {
    double bytes = 0, slots = 0;  // slots of entries, or of blocks
    double widest = 0;            // slots of the widest slice
    int block = 1, warps = 1;
    bool is_sorted = false;
    double in_flight = 4;  // slots that a warp loads at once
};

// CSR by tiles of this many entries, each by a block.
struct Tiling {
    int tile, threads, blocks;     // blocks of a processor at a time
    index_t longest_row, segment;  // a longer row is cut into segments
};

// A matrix with values of some type, stored in some amount on a device.
class Work {
public:
    Work(const Features& features, int item_bytes, const Machine& machine, const Amount& stored = {})
        : features(features), stored(stored), machine(machine), item_(item_bytes), entries_(features.nnz / kMillion) {}

    int item_bytes() const { return static_cast<int>(item_); }
    double rows() const { return std::max<index_t>(features.rows, 1); }
    // Sectors of x that come from beyond the L1, per entry.
    double run_sectors() const;

    // The traffic of every kernel that reads the stored arrays, without x and with it.
    Terms streams() const { return streams(stored.bytes); }
    // A kernel that traverses the entries in order, without regard to rows.
    Terms by_entries() const;
    // A kernel with a thread for each row, which reads x along whole diagonals.
    Terms by_diagonals() const;
    // CSR by rows, with this many lanes each.
    Terms by_rows(int lanes) const;
    Terms by_tiles(const Tiling& tiling) const;
    // CSR by nodes of rows with equal columns, with this many lanes each; longer rows are cut.
    Terms by_nodes(int lanes, index_t longest_row) const;
    Terms by_slices(const Slicing& slicing) const;

    // Work on the CPU, where threads traverse slots and entries row by row: as many threads as there are processors, or
    // as there are parts. One thread does everything if there is little to do.
    static constexpr std::int64_t kAnyParts = std::int64_t(1) << 40;
    Terms on_cpu(std::int64_t parts = kAnyParts) const;
    std::int64_t parts_of(int rows_of_a_part, int lanes = 1) const;
    // A slot that stands for an entry and its mirror image is multiplied twice.
    double multiplied() const { return stored.padding * features.nnz; }

    const Features& features;
    const Amount stored;
    const Machine machine;

private:
    double csr_bytes() const { return double(features.nnz) * (item_ + 4) + 4.0 * features.rows; }
    Terms streams(double bytes) const;
    Terms base(double bytes) const;

    double item_;
    double entries_;  // in millions
};

}  // namespace spmvgpu::times
