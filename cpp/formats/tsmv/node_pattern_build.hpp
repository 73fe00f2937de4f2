// Finds the nodes of a symmetric pattern, as passes on any device; see formats/builder.hpp.
#pragma once

#include "core/passes/passes.hpp"
#include "formats/shared/symmetry_build.hpp"
#include "formats/tsmv/node_pattern.hpp"

namespace spmvgpu {

namespace node_pattern {

// Numbers of nodes if a node has at most one row, two, and so on.
struct NodeCounts {
    std::int64_t counts[kMaxBlock] = {};

    constexpr NodeCounts& operator+=(const NodeCounts& other) {
        for (int i = 0; i < kMaxBlock; ++i) counts[i] += other.counts[i];
        return *this;
    }
};

// The block size that takes the least memory, with value_bytes per value and index_bytes per block.
inline int choose_block(index_t rows, const NodeCounts& nodes, int value_bytes, int index_bytes) {
    double least = 0;
    int block = 0;
    for (int candidate = 1; candidate <= kMaxBlock; ++candidate) {
        // The number of blocks is the number of entries divided by the mean size of a node, squared.
        const double count = nodes.counts[candidate - 1] > 0 ? static_cast<double>(nodes.counts[candidate - 1]) : 1.0;
        const double mean = rows / count;
        const double bytes = (index_bytes + candidate * candidate * value_bytes) / (mean * mean);
        if (block != 0 && bytes >= least) continue;
        least = bytes;
        block = candidate;
    }
    return block;
}

// Calls visit(column, place) for every block of a node up to its diagonal.
template <class Visit>
SPMVGPU_IN_BODY void for_each_block(const index_t* row_offsets, const index_t* cols, const index_t* first_rows,
                                    const index_t* nodes_before, index_t node, const Visit& visit) {
    const index_t begin = row_offsets[first_rows[node]], end = row_offsets[first_rows[node] + 1];
    for (index_t k = begin; k < end;) {
        const index_t column = node_of_row(nodes_before, cols[k]);
        if (column > node) return;
        visit(column, k - begin);
        k += first_rows[column + 1] - first_rows[column];
    }
}

// Marks the rows that are as long as the row before and have other columns, entry by entry if rows are short, so that
// no lanes idle.
template <class Passes>
void mark_other_columns(Passes& passes, index_t rows, index_t nnz, const index_t* row_offsets, const index_t* cols,
                        Mark* marks) {
    constexpr index_t kLongRow = 16;
    if (nnz / kLongRow < rows) {
        passes.each_entry(rows, row_offsets, nnz, [=] SPMVGPU_BODY(index_t row, index_t k) {
            const index_t length = row_offsets[row + 1] - row_offsets[row];
            if (k < length || cols[k] == cols[k - length]) return;
            if (!is_marked(marks + row)) set_mark(marks + row);
        });
        return;
    }
    passes.each_in_step(
        rows,
        [=] SPMVGPU_BODY(const typename Passes::Lanes& lanes, std::int64_t row) {
            if (is_marked(marks + row)) return;
            const index_t begin = row_offsets[row], length = row_offsets[row + 1] - begin;
            lanes.share(length, [&](index_t i) {
                if (cols[begin + i] != cols[begin + i - length]) set_mark(marks + row);
            });
        },
        kLongRow);
}

}  // namespace node_pattern

// The nodes of a CSR pattern, without their blocks. Block 0 chooses the one whose blocks take least memory, see
// choose_block().
template <class Passes>
NodePattern find_nodes(Passes& passes, index_t rows, index_t nnz, const index_t* row_offsets, const index_t* cols,
                       int block, int value_bytes, int index_bytes) {
    using namespace node_pattern;
    // A run of rows with equal columns makes nodes from its begin on. Number of runs that begin before each row:
    Array<index_t> run_numbers = passes.template scratch<index_t>(rows + std::size_t(1));
    index_t* const runs = run_numbers.data();
    Array<Mark> marks = passes.template scratch<Mark>(rows);
    Mark* const differs = marks.data();
    passes.each(rows, [=] SPMVGPU_BODY(std::int64_t row) {
        const index_t length = row_offsets[row + 1] - row_offsets[row];
        differs[row] = row == 0 || length != row_offsets[row] - row_offsets[row - 1];
    });
    mark_other_columns(passes, rows, nnz, row_offsets, cols, differs);
    passes.each(rows, [=] SPMVGPU_BODY(std::int64_t row) { runs[row] = differs[row]; });
    Array<index_t> run_begins = passes.template scratch<index_t>(passes.scan(runs, rows));
    index_t* const begins = run_begins.data();
    passes.each(rows, [=] SPMVGPU_BODY(std::int64_t row) {
        if (runs[row] != runs[row + 1]) begins[runs[row]] = static_cast<index_t>(row);
    });
    NodePattern pattern;
    pattern.block = block;
    if (block == 0) {
        const auto found = passes.template reduce<NodeCounts>(rows, [=] SPMVGPU_BODY(std::int64_t row) {
            NodeCounts nodes;
            for (int i = 0; i < kMaxBlock; ++i) nodes.counts[i] = (row - begins[runs[row + 1] - 1]) % (i + 1) == 0;
            return nodes;
        });
        pattern.block = choose_block(rows, found, value_bytes, index_bytes);
    }
    const int most = pattern.block;
    pattern.matrix_rows = rows;
    pattern.nodes_before = passes.template scratch<index_t>(rows + std::size_t(1));
    index_t* const before = pattern.nodes_before.data();
    passes.each(rows,
                [=] SPMVGPU_BODY(std::int64_t row) { before[row] = (row - begins[runs[row + 1] - 1]) % most == 0; });
    pattern.nodes = passes.scan(before, rows);
    pattern.rows = passes.template scratch<index_t>(pattern.nodes + std::size_t(1));
    index_t* const first_rows = pattern.rows.data();
    passes.each(std::int64_t(rows) + 1, [=] SPMVGPU_BODY(std::int64_t row) {
        if (row == rows || before[row] != before[row + 1]) first_rows[before[row]] = static_cast<index_t>(row);
    });
    return pattern;
}

// Finds the blocks of the lower triangle of a symmetric pattern. In one that is not symmetric it finds some blocks, and
// blocks_are_mirrored() is false.
template <class Passes>
void find_blocks(Passes& passes, const index_t* row_offsets, const index_t* cols, NodePattern& pattern) {
    using namespace node_pattern;
    constexpr std::int64_t kNanosecondsPerNode = 50;
    const index_t nodes = pattern.nodes;
    const index_t *const first_rows = pattern.rows.data(), *const before = pattern.nodes_before.data();
    pattern.offsets = passes.template scratch<index_t>(nodes + std::size_t(1));
    index_t* const offsets = pattern.offsets.data();
    passes.each(
        nodes,
        [=] SPMVGPU_BODY(std::int64_t node) {
            index_t count = 0;
            for_each_block(row_offsets, cols, first_rows, before, static_cast<index_t>(node),
                           [&](index_t, index_t) { ++count; });
            offsets[node] = count;
        },
        kNanosecondsPerNode);
    pattern.blocks = passes.scan(offsets, nodes);
    pattern.columns = passes.template scratch<index_t>(pattern.blocks);
    pattern.places = passes.template scratch<index_t>(pattern.blocks);
    index_t *const columns = pattern.columns.data(), *const places = pattern.places.data();
    passes.each(
        nodes,
        [=] SPMVGPU_BODY(std::int64_t node) {
            index_t at = offsets[node];
            for_each_block(row_offsets, cols, first_rows, before, static_cast<index_t>(node),
                           [&](index_t column, index_t place) {
                               columns[at] = column;
                               places[at++] = place;
                           });
        },
        kNanosecondsPerNode);
}

// Returns true if the lower triangle of a matrix consists of the blocks of the pattern, all of their entries have
// correct mirror images, and as many entries are above the diagonal as below it.
template <class T, class Passes>
bool blocks_are_mirrored(Passes& passes, const CsrMatrix<T>& csr, const NodePattern& pattern, bool hermitian) {
    if (symmetry_passes::count_surplus(passes, symmetry_passes::entries_of(csr, 0)) != 0) return false;
    const index_t *const row_offsets = csr.row_offsets.data(), *const cols = csr.col_indices.data();
    const index_t *const first_rows = pattern.rows.data(), *const offsets = pattern.offsets.data();
    const index_t *const columns = pattern.columns.data(), *const places = pattern.places.data();
    const T* const values = csr.values.data();
    return !any_entry(passes, pattern.nodes, offsets, pattern.blocks, [=] SPMVGPU_BODY(index_t node, index_t k) {
        const index_t row = first_rows[node], rows = first_rows[node + 1] - row;
        const index_t col = first_rows[columns[k]], width = first_rows[columns[k] + 1] - col;
        const index_t length = row_offsets[row + 1] - row_offsets[row], begin = row_offsets[row] + places[k];
        const index_t there = row_offsets[col], there_end = row_offsets[col + 1];
        const auto mirror = static_cast<index_t>(first_not_below(cols, there, there_end, row));
        if (places[k] + width > length || mirror + rows > there_end) return true;
        bool same = true;
        for (index_t i = 0; i < width; ++i) same &= cols[begin + i] == col + i;
        for (index_t j = 0; j < rows; ++j) same &= cols[mirror + j] == row + j;
        for (index_t j = 0; j < rows; ++j) {
            for (index_t i = 0; i < width; ++i) {
                same &= are_mirrored(values[begin + j * length + i], values[mirror + i * (there_end - there) + j],
                                     hermitian);
            }
        }
        return !same;
    });
}

}  // namespace spmvgpu
