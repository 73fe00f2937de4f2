// What a product takes on a GPU, from what it moves and waits for: formats choose their options by it.
//
// A kernel counts terms with the functions of Work; what each costs is fitted to times on an H100 and stands beside the
// format. Terms of one group add up, and groups overlap: the time is what comes first, and the root of the squares of
// what moves, what is worked, and what is waited for.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <utility>

#include "formats/features.hpp"

namespace spmvgpu::times {

inline constexpr double kMillion = 1e6;

// In millions, but for launches, loads, rounds and what is there or is not.
enum Term {
    // Before and after everything else.
    kLaunch,
    kCut,     // whether a row is shared by several blocks or warps
    kXStart,  // sectors of x that all threads ask for at the same time, as none has begun to multiply
    // What moves.
    kMemory,   // bytes that come from memory
    kCache,    // and from the last cache before it
    kXMemory,  // sectors of x, likewise
    kXCache,
    kRefetch,   // sectors that the L1 lost before a thread came back to them
    kUnsorted,  // entries whose rows are far apart, as they were sorted,
    kPermuted,  // and their rows
    // What is worked.
    kLines,   // of the L1 that warps ask for
    kXLines,  // those of x
    kEntries,
    kSlots,
    kSums,      // that warps of a slice add up
    kLongRows,  // of a tile, of more entries than its lanes are for
    // What is waited for.
    kWaves,    // of blocks that fill the device, one after the other
    kDepth,    // steps of a sum over lanes, in each of them
    kRounds,   // of rows of a tile
    kHasLong,  // whether tiles have long rows
    kSorted,   // whether rows are looked up in their order
    kLoads,    // that wait for each other
    kGathers,  // and those of x, as far as they reach beyond the L1
    kTermCount
};
using Terms = std::array<double, kTermCount>;

constexpr Terms costs(std::initializer_list<std::pair<Term, double>> given) {
    Terms terms{};
    for (const auto& [term, cost] : given) terms[term] = cost;
    return terms;
}

// Microseconds of a product.
double time_us(const Terms& terms, const Terms& costs);

// Features of a matrix of which no more is known: its rows are uneven, and its columns those of a mesh.
Features of_sizes(index_t rows, index_t cols, index_t nnz);

// A GPU with so many multiprocessors.
struct Machine {
    int processors = 1;
    double cache_bytes = 400e3 * processors;  // of the L2
};

// A kernel with lanes side by side that read slots of slices.
struct Slicing {
    double bytes = 0, slots = 0;  // slots of entries, or of blocks
    double widest = 0;            // slots of the widest slice
    int block = 1, warps = 1;
    bool is_sorted = false;
    double in_flight = 4;  // slots that a warp loads at once
};

// A matrix with values of a type on a GPU.
class Work {
public:
    Work(const Features& features, int item_bytes, const Machine& machine)
        : features_(features), item_(item_bytes), machine_(machine), entries_(features.nnz / kMillion) {}

    // What every kernel moves that reads so many bytes of a matrix.
    Terms streams(double bytes) const;

    // CSR by rows, so many lanes each.
    Terms by_rows(int lanes) const;
    // CSR by tiles of so many entries, each by a block.
    Terms by_tiles(int tile, int threads, int longest_segment) const;
    Terms by_slices(const Slicing& slicing) const;

private:
    double csr_bytes() const { return double(features_.nnz) * (item_ + 4) + 4.0 * features_.rows; }
    double run_sectors() const;
    Terms base(double bytes) const;

    const Features& features_;
    double item_;
    Machine machine_;
    double entries_;  // in millions
};

}  // namespace spmvgpu::times
