// The matrices between two grids from aggregates. The tentative prolongator has the near null space of an aggregate,
// orthonormalised, as its columns there; a step of damped Jacobi may smooth them (Vanek, Mandel and Brezina, Computing
// 56, 1996). As passes on any device; see core/passes/passes.hpp.
#pragma once

#include <cmath>
#include <cstdint>
#include <utility>

#include "core/csr_matrix.hpp"
#include "core/host_vector.hpp"
#include "core/parallel.hpp"
#include "core/passes/csr_passes.hpp"
#include "core/passes/host_passes.hpp"
#include "core/wide.hpp"
#include "multigrid/aggregation.hpp"
#include "multigrid/distinct.hpp"
#include "multigrid/products.hpp"
#include "multigrid/spectrum.hpp"

namespace spmvgpu::multigrid {

// Rows that belong together: the unknowns of a node of a mesh, or the columns of one aggregate. Without arrays, each
// row is a node.
struct Nodes {
    index_t count = 0;
    Array<index_t> of_row, first_row;
    Array<Mark> outer;  // marks nodes with connections outside of the matrix, which is a block; empty: none

    struct View {
        const index_t *of_row, *first_row;
        constexpr index_t node(index_t row) const { return of_row == nullptr ? row : of_row[row]; }
        constexpr index_t first(index_t node) const { return first_row == nullptr ? node : first_row[node]; }
    };
    View view() const { return {of_row.data(), first_row.data()}; }
    bool are_rows() const { return of_row.data() == nullptr; }
};

struct NodesOfNode {
    index_t runs;
    const index_t *row_offsets, *col_indices;
    Nodes::View nodes;

    constexpr Run run(index_t i) const { return {row_offsets[i], row_offsets[i + 1]}; }
    constexpr index_t number(const Run& /*run*/, index_t k) const { return nodes.node(col_indices[k]); }
};

// Which nodes of rows have an entry in the columns of which nodes.
template <class Passes>
PatternArrays pattern_of_nodes(Passes& passes, const CsrPattern& csr, const Nodes& of_rows, const Nodes& of_cols) {
    const Nodes::View rows = of_rows.view(), cols = of_cols.view();
    return distinct_pattern(
        passes, of_rows.count, of_cols.count,
        [=] SPMVGPU_BODY(std::int64_t i) {
            const auto node = static_cast<index_t>(i);
            const index_t first = rows.first(node);
            return NodesOfNode{rows.first(node + 1) - first, csr.row_offsets + first, csr.col_indices, cols};
        },
        kNanosecondsPerTerm * (1 + csr.nnz / std::max(1, of_rows.count)));
}

// The pattern of a matrix in which these nodes have all entries.
template <class Passes>
PatternArrays pattern_of_rows(Passes& passes, PatternArrays of_nodes, index_t rows, const Nodes& row_nodes,
                              index_t cols, const Nodes& col_nodes) {
    if (row_nodes.are_rows() && col_nodes.are_rows()) return of_nodes;
    const Nodes::View of_row = row_nodes.view(), of_col = col_nodes.view();
    const index_t *const near_offsets = of_nodes.row_offsets.data(), *const near = of_nodes.col_indices.data();
    const auto length = [=] SPMVGPU_BODY(index_t node) {
        index_t found = 0;
        for (index_t k = near_offsets[node]; k < near_offsets[node + 1]; ++k) {
            found += of_col.first(near[k] + 1) - of_col.first(near[k]);
        }
        return found;
    };
    const auto all = passes.template reduce<std::int64_t>(of_nodes.rows, [=] SPMVGPU_BODY(std::int64_t i) {
        const auto node = static_cast<index_t>(i);
        return std::int64_t(of_row.first(node + 1) - of_row.first(node)) * length(node);
    });
    check_entries(all);
    PatternArrays pattern{rows, cols, static_cast<index_t>(all), {}, {}};
    pattern.row_offsets =
        sum_row_lengths(passes, rows, [=] SPMVGPU_BODY(index_t row) { return length(of_row.node(row)); });
    const index_t* const row_offsets = pattern.row_offsets.data();
    pattern.col_indices = passes.template make<index_t>(pattern.nnz);
    index_t* const to = pattern.col_indices.data();
    passes.each(rows, [=] SPMVGPU_BODY(std::int64_t row) {
        const index_t node = of_row.node(static_cast<index_t>(row));
        index_t at = row_offsets[row];
        for (index_t k = near_offsets[node]; k < near_offsets[node + 1]; ++k) {
            for (index_t col = of_col.first(near[k]); col < of_col.first(near[k] + 1); ++col) to[at++] = col;
        }
    });
    return pattern;
}

// Vectors that the matrix nearly maps to zero, row by row.
template <class T>
struct NearNullSpace {
    index_t count = 1;
    Array<Wide<T>> entries;
    bool is_constant = false;  // one vector of ones
};

// The columns of the tentative prolongator. Unknowns of one aggregate are neighbours.
template <class T>
struct Tentative {
    index_t cols = 0;
    Array<index_t> first_col;    // of a row's aggregate; kNone for a row without one
    Array<index_t> offsets;      // begins of the columns of each aggregate
    Array<Wide<T>> entries;      // `modes` entries per row; zeros after the aggregate's last column
    Nodes nodes;                 // the columns as rows of the coarser matrix
    NearNullSpace<T> near_null;  // of the coarser matrix
};

// Orthonormalises the columns of B in the rows of an aggregate by the modified Gram-Schmidt method, with the factors in
// `r`; linearly dependent columns are left out. Returns the number of columns. A few lanes share the nodes.
template <class Lanes, class V>
SPMVGPU_IN_BODY index_t orthonormalise(const Lanes& lanes, const index_t* members, index_t member_count,
                                       const Nodes::View& nodes, index_t modes, const V* B, V* Q, V* r) {
    constexpr double kDependent = 1e-10;
    // The sum of term(row) over the rows of all members, each of which is always the same lane's.
    const auto over_rows = [&]<class Sum, class Term>(Sum zero, const Term& term) {
        return lanes.template total<Sum>(member_count, [&](index_t m) {
            Sum sum = zero;
            const index_t end = nodes.first(members[m] + 1);
            for (index_t row = nodes.first(members[m]); row < end; ++row) sum += term(std::int64_t(row) * modes);
            return sum;
        });
    };
    index_t rank = 0;
    lanes.share(modes * modes, [&](index_t i) { r[i] = V(0); });
    for (index_t mode = 0; mode < modes; ++mode) {
        const double before = over_rows(0.0, [&](std::int64_t at) {
            Q[at + rank] = B[at + mode];
            return squared(Q[at + rank]);
        });
        double after = before;
        for (index_t other = 0; other < rank; ++other) {
            const V along = over_rows(V(0), [&](std::int64_t at) { return conjugate(Q[at + other]) * Q[at + rank]; });
            after = over_rows(0.0, [&](std::int64_t at) {
                Q[at + rank] = Q[at + rank] - along * Q[at + other];
                return squared(Q[at + rank]);
            });
            lanes.once([&] { r[other * modes + mode] = along; });
        }
        const double norm = square_root(after);
        const bool is_new = norm > kDependent * square_root(before);
        over_rows(0.0, [&](std::int64_t at) {
            Q[at + rank] = is_new ? Q[at + rank] / norm : V(0);
            return 0.0;
        });
        if (is_new) {
            lanes.once([&] { r[rank * modes + mode] = V(norm); });
            ++rank;
        }
    }
    over_rows(0.0, [&](std::int64_t at) {
        for (index_t c = rank; c < modes; ++c) Q[at + c] = V(0);
        return 0.0;
    });
    return rank;
}

// Marks the aggregates of marked nodes.
template <class Passes>
Array<Mark> outer_aggregates(Passes& passes, const Nodes& nodes, const Aggregates& aggregates) {
    if (nodes.outer.size() == 0) return {};
    Array<Mark> marks = passes.template make<Mark>(aggregates.count);
    Mark* const to = marks.data();
    const Mark* const outer = nodes.outer.data();
    const index_t* const of_node = aggregates.of_node.data();
    passes.fill(to, aggregates.count, Mark(0));
    passes.each(nodes.count, [=] SPMVGPU_BODY(std::int64_t node) {
        if (outer[node] && of_node[node] != kNone) set_mark(to + of_node[node]);
    });
    return marks;
}

template <class T, class Passes>
Tentative<T> tentative_prolongator(Passes& passes, index_t rows, const Nodes& nodes, const Aggregates& aggregates,
                                   const NearNullSpace<T>& near_null) {
    using V = Wide<T>;
    const index_t count = aggregates.count, modes = near_null.count;
    const Nodes::View node_view = nodes.view();
    const index_t* const of_node = aggregates.of_node.data();
    const std::int64_t nanoseconds = 10 * (1 + std::int64_t(rows) * modes * modes / (count + 1));

    // Nodes without an aggregate become members of one behind the last.
    const Array<index_t> members =
        passes.order_by_key(nodes.count, nodes.count > 0 ? nodes.count : 1, count,
                            [=] SPMVGPU_BODY(index_t node) { return of_node[node] == kNone ? count : of_node[node]; });
    Array<index_t> begins = passes.template scratch<index_t>(count + std::size_t(1));
    index_t* const begin = begins.data();
    const index_t *const member = members.data(), node_count = nodes.count;
    passes.each(std::int64_t(node_count) + 1, [=] SPMVGPU_BODY(std::int64_t i) {
        const auto aggregate_at = [=](std::int64_t place) {
            const index_t found = of_node[member[place]];
            return found == kNone ? count : found;
        };
        const index_t from = i > 0 ? aggregate_at(i - 1) + 1 : 0, to = i < node_count ? aggregate_at(i) : count;
        for (index_t a = from; a <= to; ++a) begin[a] = static_cast<index_t>(i);
    });

    Tentative<T> made;
    made.entries = passes.template make<V>(std::size_t(rows) * modes);
    made.offsets = passes.template make<index_t>(count + std::size_t(1));
    Array<V> factors = passes.template scratch<V>(std::size_t(count) * modes * modes);
    V *const Q = made.entries.data(), *const R = factors.data();
    const V* const B = near_null.entries.data();
    index_t* const offsets = made.offsets.data();
    passes.each_by_few_with(
        count, 0,
        [=] SPMVGPU_BODY(const auto& lanes, std::int64_t a, Word* /*memory*/) {
            const index_t rank = orthonormalise(lanes, member + begin[a], begin[a + 1] - begin[a], node_view, modes, B,
                                                Q, R + a * modes * modes);
            lanes.once([&] { offsets[a] = rank; });
        },
        nanoseconds);
    made.cols = passes.scan(offsets, count);

    made.first_col = passes.template make<index_t>(rows);
    index_t* const first_col = made.first_col.data();
    passes.each(rows, [=] SPMVGPU_BODY(std::int64_t row) {
        const index_t own = of_node[node_view.node(static_cast<index_t>(row))];
        first_col[row] = own == kNone ? kNone : offsets[own];
        if (own == kNone) {
            for (index_t c = 0; c < modes; ++c) Q[row * modes + c] = V(0);
        }
    });

    made.nodes.count = count;
    made.nodes.outer = outer_aggregates(passes, nodes, aggregates);
    if (modes > 1 || made.cols != count) {
        made.nodes.first_row = made.offsets;
        made.nodes.of_row = passes.template make<index_t>(made.cols);
    }
    made.near_null = {modes, passes.template make<V>(std::size_t(made.cols) * modes)};
    index_t* const of_row = made.nodes.of_row.data();
    V* const coarse_B = made.near_null.entries.data();
    passes.each(count, [=] SPMVGPU_BODY(std::int64_t a) {
        for (index_t row = offsets[a]; row < offsets[a + 1]; ++row) {
            if (of_row != nullptr) of_row[row] = static_cast<index_t>(a);
            const V* const from = R + (a * modes + row - offsets[a]) * modes;
            for (index_t mode = 0; mode < modes; ++mode) coarse_B[std::int64_t(row) * modes + mode] = from[mode];
        }
    });
    return made;
}

// The pattern of the tentative prolongator: a row has the columns of its own aggregate.
template <class T, class Passes>
PatternArrays tentative_pattern(Passes& passes, index_t rows, const Nodes& nodes, const Aggregates& aggregates,
                                const Tentative<T>& tentative) {
    const Nodes::View node_view = nodes.view();
    const index_t *const of_node = aggregates.of_node.data(), *const offsets = tentative.offsets.data(),
                         *const first_col = tentative.first_col.data();
    PatternArrays pattern{rows, tentative.cols, 0, {}, {}};
    pattern.row_offsets = sum_row_lengths(passes, rows, [=] SPMVGPU_BODY(index_t row) {
        const index_t own = of_node[node_view.node(row)];
        return own == kNone ? 0 : offsets[own + 1] - offsets[own];
    });
    const index_t* const row_offsets = pattern.row_offsets.data();
    pattern.nnz = rows > 0 ? passes.read(row_offsets + rows) : 0;
    pattern.col_indices = passes.template make<index_t>(pattern.nnz);
    index_t* const to = pattern.col_indices.data();
    passes.each(rows, [=] SPMVGPU_BODY(std::int64_t row) {
        const index_t begin = row_offsets[row], end = row_offsets[row + 1];
        for (index_t at = begin; at < end; ++at) to[at] = first_col[row] + (at - begin);
    });
    return pattern;
}

// P = T, in the pattern of P.
template <class T, class Passes>
void fill_tentative(Passes& passes, const Tentative<T>& tentative, CsrMatrix<T>& P) {
    const index_t modes = tentative.near_null.count;
    const index_t* const row_offsets = P.row_offsets.data();
    const Wide<T>* const Q = tentative.entries.data();
    T* const to = P.values.data();
    passes.each_entry(P.rows, row_offsets, P.nnz, [=] SPMVGPU_BODY(index_t row, index_t entry) {
        to[entry] = T(Q[std::int64_t(row) * modes + (entry - row_offsets[row])]);
    });
}

// The aggregates of a node's strong neighbours and its own one.
struct AggregatesNear {
    index_t runs, begin, end, own;
    const index_t *neighbours, *of_node;
    const Strength* strengths;

    constexpr Run run(index_t /*i*/) const { return {begin, end}; }
    constexpr index_t number(const Run& /*run*/, index_t k) const {
        const index_t found = strengths[k] == 0 ? own : of_node[neighbours[k]];
        return found == kNone ? own : found;
    }
};

template <class T, class Passes>
PatternArrays prolongator_pattern(Passes& passes, index_t rows, const Nodes& nodes, const Graph& graph,
                                  const Aggregates& aggregates, const Tentative<T>& tentative) {
    const index_t* const of_node = aggregates.of_node.data();
    constexpr std::int64_t kNanoseconds = 100;
    PatternArrays of_nodes = distinct_pattern(
        passes, graph.nodes, aggregates.count,
        [=] SPMVGPU_BODY(std::int64_t node) {
            const index_t own = of_node[node], begin = graph.row_offsets[node], end = graph.row_offsets[node + 1];
            return AggregatesNear{own != kNone, begin, end, own, graph.neighbours, of_node, graph.strengths};
        },
        kNanoseconds);
    return pattern_of_rows(passes, std::move(of_nodes), rows, nodes, tentative.cols, tentative.nodes);
}

// An entry of a matrix for vectors relative to a near-null vector: times the quotient of that vector's entries in the
// column and in the row, unless that is zero in the row. Without a vector it is constant.
template <class T>
constexpr Wide<T> relative_entry(T value, const Wide<T>* near_null, index_t row, index_t col) {
    const Wide<T> entry(value);
    if (near_null == nullptr || row == col || near_null[row] == Wide<T>(0)) return entry;
    return entry * (near_null[col] / near_null[row]);
}

// Columns and values of a matrix without its weak entries, in scratch memory. A weak entry is added to the one of its
// own node at the same place, so that the product with the near-null vector stays: its column becomes that unknown, or
// -1 if the entry is missing.
template <class T>
struct Filtered {
    Array<index_t> col_indices;  // empty if no entry is weak
    Array<T> values;             // empty if the matrix has the same

    const index_t* columns(const CsrPattern& A) const {
        return col_indices.size() > 0 ? col_indices.data() : A.col_indices;
    }
    const T* values_of(const T* of_matrix) const { return values.size() > 0 ? values.data() : of_matrix; }
    // The matrix. Its columns are in no order, and may repeat.
    CsrMatrix<T> of(const CsrMatrix<T>& A) const {
        return {A.rows, A.cols, A.nnz, A.row_offsets, col_indices, values.size() > 0 ? values : A.values};
    }
};

// `kept` is 0 for a weak entry.
template <class T, class Passes>
Filtered<T> filter_entries(Passes& passes, const CsrPattern& A, const T* values, const Strength* kept,
                           const Nodes::View& nodes, const Wide<T>* near_null) {
    Filtered<T> made;
    made.col_indices = passes.template scratch<index_t>(A.nnz);
    if (near_null != nullptr) made.values = passes.template scratch<T>(A.nnz);
    index_t* const to = made.col_indices.data();
    T* const new_values = made.values.data();
    passes.each_entry(A.rows, A.row_offsets, A.nnz, [=] SPMVGPU_BODY(index_t row, index_t k) {
        const index_t col = A.col_indices[k], node = nodes.node(row), other = nodes.node(col);
        const index_t moved = nodes.first(node) + (col - nodes.first(other));
        const bool stays = kept[k] != 0 || node == other;
        to[k] = stays ? col : moved < nodes.first(node + 1) ? moved : -1;
        if (new_values != nullptr) {
            new_values[k] = stays ? values[k] : T(relative_entry<T>(values[k], near_null, row, col));
        }
    });
    return made;
}

// P = T - scale A T with the filtered matrix A, with one `scale` for each row.
template <class T>
void smooth_prolongator(HostPasses& /*passes*/, const CsrPattern& A, const T* values, const double* scale,
                        const Tentative<T>& tentative, CsrMatrix<T>& P) {
    const index_t modes = tentative.near_null.count;
    const index_t* const first_col = tentative.first_col.data();
    const Wide<T>* const Q = tentative.entries.data();
    parallel_ranges(A.rows, kNanosecondsPerTerm * modes * A.nnz, [&](std::int64_t first, std::int64_t last) {
        HostVector<Wide<T>> sums;
        InterruptTimer timer;
        for (auto row = static_cast<index_t>(first); row < last; ++row) {
            const index_t begin = P.row_offsets[row], count = P.row_offsets[row + 1] - begin;
            const index_t* const cols = P.col_indices.data() + begin;
            sums.assign(count, Wide<T>(0));
            for (index_t k = A.row_offsets[row]; k < A.row_offsets[row + 1]; ++k) {
                const index_t from = A.col_indices[k];
                if (from < 0 || first_col[from] == kNone) continue;
                index_t place = find_column(cols, 0, count, first_col[from]);
                for (index_t c = 0; c < modes && place < count && cols[place] == first_col[from] + c; ++c, ++place) {
                    sums[place] += Wide<T>(values[k]) * Q[std::int64_t(from) * modes + c];
                }
            }
            for (index_t i = 0; i < count; ++i) {
                const index_t c = cols[i] - first_col[row];
                const bool is_own = first_col[row] != kNone && c >= 0 && c < modes;
                const Wide<T> own = is_own ? Q[std::int64_t(row) * modes + c] : Wide<T>(0);
                P.values[begin + i] = T(own - scale[row] * sums[i]);
            }
            timer.work((A.row_offsets[row + 1] - A.row_offsets[row]) * modes + 1);
        }
    });
}

template <class T, class Passes>
void smooth_prolongator(Passes& passes, const CsrPattern& A, const T* values, const double* scale,
                        const Tentative<T>& tentative, CsrMatrix<T>& P) {
    const index_t modes = tentative.near_null.count;
    const index_t* const first_col = tentative.first_col.data();
    const Wide<T>* const Q = tentative.entries.data();
    const index_t* const cols = P.col_indices.data();
    T* const to = P.values.data();
    passes.each_entry(P.rows, P.row_offsets.data(), P.nnz, [=] SPMVGPU_BODY(index_t row, index_t entry) {
        const index_t col = cols[entry];
        Wide<T> sum(0);
        for (index_t k = A.row_offsets[row]; k < A.row_offsets[row + 1]; ++k) {
            const index_t from = A.col_indices[k];
            if (from < 0 || first_col[from] == kNone) continue;
            const index_t c = col - first_col[from];
            if (c >= 0 && c < modes) sum += Wide<T>(values[k]) * Q[std::int64_t(from) * modes + c];
        }
        const index_t c = col - first_col[row];
        const bool is_own = first_col[row] != kNone && c >= 0 && c < modes;
        const Wide<T> own = is_own ? Q[std::int64_t(row) * modes + c] : Wide<T>(0);
        to[entry] = T(own - scale[row] * sum);
    });
}

// P = Q - scale A Q with the filtered matrix A, in the pattern of A Q.
template <class T, class Passes>
void smooth_again(Passes& passes, const CsrMatrix<T>& A, const double* scale, const CsrMatrix<T>& Q, CsrMatrix<T>& P) {
    multiply_values(passes, A, Q, P);
    const index_t *const row_offsets = Q.row_offsets.data(), *const cols = Q.col_indices.data(),
                         *const cols_of_P = P.col_indices.data();
    const T* const from = Q.values.data();
    T* const to = P.values.data();
    passes.each_entry(P.rows, P.row_offsets.data(), P.nnz, [=] SPMVGPU_BODY(index_t row, index_t entry) {
        const index_t end = row_offsets[row + 1];
        const index_t place = find_column(cols, row_offsets[row], end, cols_of_P[entry]);
        const Wide<T> before = place < end ? Wide<T>(from[place]) : Wide<T>(0);
        to[entry] = T(before - scale[row] * Wide<T>(to[entry]));
    });
}

}  // namespace spmvgpu::multigrid
