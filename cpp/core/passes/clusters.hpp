// Rows and columns of a square matrix in an order by clusters: rows that gather the same entries of x are neighbours.
// As passes over the matrix on any device; see passes.hpp.
//
// Some rows, picked at random, are the roots of clusters. All clusters grow at once, by one neighbour a sweep, as in a
// breadth-first search with many roots; a row that several reach at once joins the one with the first root. This is
// done twice, with few roots and with many: a cluster of about a thousand rows, whose part of x fits into an L1, is cut
// into cells of some dozen, whose part of x is a few cache lines. Rows are sorted by cluster, cell and number.
//
// clang-format off
//     a mesh without an order            clusters A and B               sorted by cluster
//         0---3---6                          A---A---B                      0---2---7
//         |   |   |                          |   |   |                      |   |   |
//         5---1---2                          A---A---B                      3---1---5
//         |   |   |                          |   |   |                      |   |   |
//         7---8---4                          A---B---B                      4---8---6
// clang-format on
//
// All sweeps together read the columns once, for a row names its neighbours only after the sweep that has reached it.
// On a GPU an order takes as long as some dozen products; reverse Cuthill-McKee, whose levels follow each other, takes
// as long as thousands on the CPU.
#pragma once

#include <cstdint>
#include <limits>
#include <utility>

#include "core/csr_matrix.hpp"
#include "core/passes/csr_passes.hpp"

namespace spmvgpu {

struct ClusterSizes {
    index_t cluster = 1024, cell = 32;
};

struct Neighbourhood {
    static constexpr index_t kMost = 32;  // neighbours considered, and entries considered of each
    Tally* tally;
    index_t runs;
    const index_t *neighbours, *row_offsets, *col_indices;

    constexpr Run run(index_t i) const {
        constexpr index_t kMostEntries = kMost;  // a GPU knows no address of the member
        const index_t begin = row_offsets[neighbours[i]], length = row_offsets[neighbours[i] + 1] - begin;
        return {begin, begin + (length < kMostEntries ? length : kMostEntries)};
    }
    constexpr index_t number(const Run& /*run*/, index_t k) const { return col_indices[k]; }
};

// The fraction of columns in neighbourhoods that occurred before, from a sample of rows. It is one half or more in a
// mesh, whose neighbours have common neighbours, and zero in a random graph, which no order improves.
template <class Passes>
double clustering(Passes& passes, index_t rows, const index_t* row_offsets, const index_t* col_indices) {
    constexpr index_t kSample = 256, kMost = Neighbourhood::kMost;
    const index_t count = rows < kSample ? rows : kSample;
    Array<Tally> tallies = passes.template scratch<Tally>(1);
    Tally* const tally = tallies.data();
    passes.fill(tally, 1, Tally{});
    passes.template distinct<Neighbourhood>(
        count, std::int64_t(kMost) * kMost,
        [=] SPMVGPU_BODY(std::int64_t i) {
            const std::int64_t row = sample_place(rows, count, i);
            const index_t begin = row_offsets[row], length = row_offsets[row + 1] - begin;
            return Neighbourhood{tally, length < kMost ? length : kMost, col_indices + begin, row_offsets, col_indices};
        },
        std::int64_t(10) * kMost * kMost);
    const Tally found = passes.read(tally);
    return found.all > 0 ? 1 - static_cast<double>(found.different) / static_cast<double>(found.all) : 0.0;
}

// The cluster of each row, named by its root, where about one row in `size` is a root. Rows that no root reaches belong
// to the cluster of the last row.
template <class Passes>
Array<index_t> grow_clusters(Passes& passes, index_t rows, const index_t* row_offsets, const index_t* col_indices,
                             index_t size) {
    // The sweep in which a row was reached, and below it the root. The smallest such number counts.
    using Arrival = std::uint64_t;
    constexpr int kSweepShift = 32;
    constexpr Arrival kNever = std::numeric_limits<Arrival>::max();
    constexpr std::int64_t kNanoseconds = 20;
    Array<Arrival> reached_rows = passes.template scratch<Arrival>(rows);
    Arrival* const reached = reached_rows.data();
    passes.each(rows, [=] SPMVGPU_BODY(std::int64_t row) {
        const std::uint64_t random = (static_cast<std::uint64_t>(row) + 1) * 0x9e3779b97f4a7c15u >> 33;
        reached[row] = random % static_cast<std::uint64_t>(size) == 0 ? static_cast<Arrival>(row) : kNever;
    });
    std::int64_t unreached = rows, before = 0;
    Arrival sweep = 0;
    do {
        constexpr int kSweepsAtOnce = 4;  // checking after each sweep takes longer
        for (const Arrival last = sweep + kSweepsAtOnce; sweep < last; ++sweep) {
            passes.each(
                rows,
                [=] SPMVGPU_BODY(std::int64_t row) {
                    constexpr index_t kMostNeighbours = 64;
                    const Arrival own = read_shared(reached + row);
                    if (own >> kSweepShift != sweep) return;
                    const Arrival next = own + (Arrival(1) << kSweepShift);
                    const index_t begin = row_offsets[row], length = row_offsets[row + 1] - begin;
                    const index_t end = begin + (length < kMostNeighbours ? length : kMostNeighbours);
                    for (index_t k = begin; k < end; ++k) lower(reached + col_indices[k], next);
                },
                kNanoseconds);
        }
        before = unreached;
        unreached = passes.template reduce<std::int64_t>(
            rows, [=] SPMVGPU_BODY(std::int64_t row) { return std::int64_t(reached[row] == kNever); });
    } while (unreached > 0 && unreached < before);
    Array<index_t> clusters = passes.template scratch<index_t>(rows);
    index_t* const cluster = clusters.data();
    passes.each(rows, [=] SPMVGPU_BODY(std::int64_t row) {
        cluster[row] = reached[row] == kNever ? rows - 1 : static_cast<index_t>(reached[row]);
    });
    return clusters;
}

template <class T, class Passes>
Array<index_t> order_by_clusters(Passes& passes, const CsrMatrix<T>& csr, const ClusterSizes& sizes = {}) {
    const index_t *const row_offsets = csr.row_offsets.data(), *const col_indices = csr.col_indices.data();
    Array<index_t> order = count_up(passes, csr.rows);
    for (const index_t size : {sizes.cell, sizes.cluster}) {
        const Array<index_t> clusters = grow_clusters(passes, csr.rows, row_offsets, col_indices, size);
        order = sort_by_key(passes, order, clusters, csr.rows > 0 ? csr.rows - 1 : 0);
    }
    return order;
}

// The canonical matrix whose row i is row order[i] of a square canonical one, columns likewise. An entry's place in its
// row is how many others of the row have smaller columns, so long rows take long: their length squared.
template <class T, class Passes>
CsrMatrix<T> reordered(Passes& passes, const CsrMatrix<T>& csr, const index_t* order) {
    const index_t rows = csr.rows, nnz = csr.nnz;
    const index_t *const row_offsets = csr.row_offsets.data(), *const col_indices = csr.col_indices.data();
    const T* const values = csr.values.data();
    CsrMatrix<T> result{
        rows,
        csr.cols,
        nnz,
        sum_row_lengths(passes, rows,
                        [=] SPMVGPU_BODY(index_t i) { return row_offsets[order[i] + 1] - row_offsets[order[i]]; }),
        passes.template make<index_t>(nnz),
        passes.template make<T>(nnz)};
    Array<index_t> positions = passes.template scratch<index_t>(rows), renamed = passes.template scratch<index_t>(nnz);
    index_t *const position = positions.data(), *const unsorted = renamed.data();
    passes.each(rows, [=] SPMVGPU_BODY(std::int64_t i) { position[order[i]] = static_cast<index_t>(i); });
    passes.each(nnz, [=] SPMVGPU_BODY(std::int64_t k) { unsorted[k] = position[col_indices[k]]; });
    const index_t* const new_offsets = result.row_offsets.data();
    index_t* const new_cols = result.col_indices.data();
    T* const new_values = result.values.data();
    passes.each_entry(rows, row_offsets, nnz, [=] SPMVGPU_BODY(index_t row, index_t k) {
        const index_t col = unsorted[k];
        index_t to = new_offsets[position[row]];
        for (index_t other = row_offsets[row]; other < row_offsets[row + 1]; ++other) to += unsorted[other] < col;
        new_cols[to] = col;
        new_values[to] = values[k];
    });
    return result;
}

}  // namespace spmvgpu
