// Strengths of the connections of nodes, from the entries of a matrix, and its entries that are not weak. As passes on
// any device; see core/passes/passes.hpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/csr_matrix.hpp"
#include "core/passes/csr_passes.hpp"
#include "multigrid/aggregation.hpp"
#include "multigrid/interpolation.hpp"
#include "multigrid/products.hpp"
#include "multigrid/spectrum.hpp"

namespace spmvgpu::multigrid {

// Weaker connections than this are dropped.
struct Threshold {
    double strength = 0;     // relative to the largest entry of the row
    bool has_signs = false;  // positive entries are weak: one unknown per node, and one near-null vector
};

constexpr double magnitude(double value) { return value < 0 ? -value : value; }
// Computed without squares of the parts, which may overflow when the magnitude does not.
SPMVGPU_IN_BODY double magnitude(Complex<double> value) {
    const double a = magnitude(value.real), b = magnitude(value.imag), larger = a < b ? b : a;
    const double ratio = larger > 0 ? (a < b ? a : b) / larger : 0;
    return larger * square_root(1 + ratio * ratio);
}

struct NodeGraph {
    PatternArrays own;  // unless each row is a node
    Array<Strength> strengths;

    Graph graph(const CsrPattern& A, const Nodes& nodes) const {
        const CsrPattern used = nodes.are_rows() ? A : own.view();
        return {nodes.count, used.row_offsets, used.col_indices, strengths.data(), nodes.outer.data()};
    }
};

// The strength from 1 to kStrongest of a connection of this size; 0 below the threshold, and for zeros.
SPMVGPU_IN_BODY Strength strength_of(double size, double threshold, double largest) {
    if (!(size > 0) || size < threshold) return 0;
    const double relative = size / largest;
    constexpr double kHalf = 0.5;  // rounds, so that about equal entries are equal
    return static_cast<Strength>(1 + (relative < 1 ? relative : 1) * (kStrongest - 1) + kHalf);
}

// Entries of a row are compared with the largest one and the least one that is not weak.
struct RowScale {
    double largest, least;
    bool has_signs;  // by -a_ij n_j / n_i for the near-null vector n, and not by its size
};

// Strengths of the entries of a matrix whose nodes are its rows. With signs, an entry is weak also if it is small
// beside the one on the diagonal, as in a time step or the row of a hub; the bound is lower for matrices with long
// rows. Sizes count in a row whose entries are not negative on the whole. No entry is weak in a row where the near-null
// vector is zero or far from being mapped to zero, because it cannot tell which ones are.
template <class T, class Passes>
Array<Strength> connect_rows(Passes& passes, const CsrPattern& A, const T* values, const Wide<T>* near_null,
                             const Threshold& threshold) {
    constexpr double kBesideDiagonal = 0.1, kMostInRow = 50, kMostOutside = 1.5;
    const double in_row = static_cast<double>(A.nnz) / std::max(1, A.rows), strength = threshold.strength;
    const double beside_diagonal = strength * kBesideDiagonal * std::min(1.0, kMostInRow / std::max(1.0, in_row));
    const bool has_signs = threshold.has_signs && strength > 0;
    Array<RowScale> of_rows = passes.template scratch<RowScale>(A.rows);
    RowScale* const scales = of_rows.data();
    passes.each(
        A.rows,
        [=] SPMVGPU_BODY(std::int64_t i) {
            const auto row = static_cast<index_t>(i);
            double own = 0, sum = 0, largest = 0, largest_size = 0;
            for (index_t k = A.row_offsets[row]; k < A.row_offsets[row + 1]; ++k) {
                const Wide<T> entry = relative_entry<T>(values[k], near_null, row, A.col_indices[k]);
                const double size = magnitude(entry), negative = -real_part(entry);
                if (A.col_indices[k] == row) {
                    own = size;
                    continue;
                }
                sum += negative;
                if (negative > largest) largest = negative;
                if (size > largest_size) largest_size = size;
            }
            const bool is_outside = near_null != nullptr && near_null[row] == Wide<T>(0);
            if (is_outside || (has_signs && !(sum < kMostOutside * own))) {
                scales[row] = {largest_size, 0, false};
                return;
            }
            const bool by_sign = has_signs && sum > 0;
            if (!by_sign) largest = largest_size;
            const double least = strength * largest, of_diagonal = has_signs ? beside_diagonal * own : 0;
            scales[row] = {largest, least > of_diagonal ? least : of_diagonal, by_sign};
        },
        kNanosecondsPerTerm * (1 + A.nnz / std::max(1, A.rows)));
    Array<Strength> made = passes.template make<Strength>(A.nnz);
    Strength* const strengths = made.data();
    passes.each_entry(A.rows, A.row_offsets, A.nnz, [=] SPMVGPU_BODY(index_t row, index_t k) {
        const RowScale scale = scales[row];
        const Wide<T> entry = relative_entry<T>(values[k], near_null, row, A.col_indices[k]);
        const double size = scale.has_signs ? -real_part(entry) : magnitude(entry);
        strengths[k] = A.col_indices[k] == row ? Strength(0) : strength_of(size, scale.least, scale.largest);
    });
    return made;
}

template <class T, class Passes>
NodeGraph connect_nodes(Passes& passes, const CsrPattern& A, const T* values, const Nodes& nodes,
                        const Wide<T>* near_null, const Threshold& threshold) {
    if (nodes.are_rows()) return {{}, connect_rows<T>(passes, A, values, near_null, threshold)};
    NodeGraph made;
    const double strength = threshold.strength;
    const Nodes::View view = nodes.view();
    made.own = pattern_of_nodes(passes, A, nodes, nodes);
    const CsrPattern own = made.own.view();
    Array<double> block_sizes = passes.template scratch<double>(own.nnz);
    double* const sizes = block_sizes.data();
    passes.each_entry(own.rows, own.row_offsets, own.nnz, [=] SPMVGPU_BODY(index_t node, index_t k) {
        const index_t other = own.col_indices[k], begin = view.first(other), end = view.first(other + 1);
        double largest = 0, sum = 0;  // a magnitude, and the squares relative to it, which neither over- nor underflow
        for (index_t row = view.first(node); row < view.first(node + 1); ++row) {
            const index_t row_end = A.row_offsets[row + 1];
            auto at = static_cast<index_t>(first_not_below(A.col_indices, A.row_offsets[row], row_end, begin));
            for (; at < row_end && A.col_indices[at] < end; ++at) {
                const double size = magnitude(Wide<T>(values[at]));
                if (size > largest) {
                    sum = 1 + sum * squared(largest / size);
                    largest = size;
                } else if (size > 0) {
                    sum += squared(size / largest);
                }
            }
        }
        sizes[k] = largest * square_root(sum);
    });
    Array<double> largest_sizes = passes.template scratch<double>(nodes.count);
    double* const largest_size = largest_sizes.data();
    passes.each(
        nodes.count,
        [=] SPMVGPU_BODY(std::int64_t node) {
            double largest = 0;
            for (index_t k = own.row_offsets[node]; k < own.row_offsets[node + 1]; ++k) {
                if (own.col_indices[k] != node && sizes[k] > largest) largest = sizes[k];
            }
            largest_size[node] = largest;
        },
        1 + own.nnz / std::max(1, nodes.count));
    made.strengths = passes.template make<Strength>(own.nnz);
    Strength* const strengths = made.strengths.data();
    passes.each_entry(own.rows, own.row_offsets, own.nnz, [=] SPMVGPU_BODY(index_t node, index_t k) {
        const index_t other = own.col_indices[k];
        const double largest = largest_size[node];
        strengths[k] = other == node ? Strength(0) : strength_of(sizes[k], strength * largest, largest);
    });
    return made;
}

// Marks the entries of a matrix that are not weak; empty if none is weak.
template <class T, class Passes>
Array<Strength> kept_entries(Passes& passes, const CsrPattern& A, const T* values, const Nodes& nodes,
                             const NodeGraph& graph) {
    const Nodes::View view = nodes.view();
    const Graph connected = graph.graph(A, nodes);
    const Strength* const strengths = connected.strengths;
    const bool are_rows = nodes.are_rows();
    Array<Strength> marks = passes.template make<Strength>(A.nnz), weak = passes.template scratch<Strength>(1);
    Strength *const kept = marks.data(), *const is_any_weak = weak.data();
    passes.fill(is_any_weak, 1, Strength(0));
    passes.each_entry(A.rows, A.row_offsets, A.nnz, [=] SPMVGPU_BODY(index_t row, index_t k) {
        const index_t col = A.col_indices[k], node = view.node(row), other = view.node(col);
        const index_t place = are_rows ? k
                                       : find_column(connected.neighbours, connected.row_offsets[node],
                                                     connected.row_offsets[node + 1], other);
        kept[k] = node == other || strengths[place] != 0;
        if (kept[k] == 0 && !(values[k] == T(0))) set_mark(is_any_weak);
    });
    return passes.read(is_any_weak) != 0 ? marks : Array<Strength>{};
}

}  // namespace spmvgpu::multigrid
