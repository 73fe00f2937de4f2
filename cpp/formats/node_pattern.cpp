#include "formats/node_pattern.hpp"

#include <algorithm>
#include <numeric>

#include "core/host_vector.hpp"
#include "core/parallel.hpp"

namespace spmvgpu {

namespace {

// For each row, whether its columns are those of the row before.
HostVector<char> find_repeats(index_t rows, const index_t* offsets, const index_t* cols) {
    HostVector<char> repeats(rows, 0);
    parallel_for(rows, offsets[rows], [&](index_t row) {
        repeats[row] = row > 0 && std::equal(cols + offsets[row - 1], cols + offsets[row], cols + offsets[row],
                                             cols + offsets[row + 1]);
    });
    return repeats;
}

// First row of every node, and the end.
HostVector<index_t> cut_nodes(const HostVector<char>& repeats, int block) {
    const auto rows = static_cast<index_t>(repeats.size());
    HostVector<index_t> begins;
    begins.reserve(rows / block + 2);
    for (index_t begin = 0, end; begin < rows; begin = end) {
        end = begin + 1;
        while (end < rows && end - begin < block && repeats[end]) ++end;
        begins.push_back(begin);
    }
    begins.push_back(rows);
    return begins;
}

}  // namespace

NodePattern find_nodes(index_t rows, const index_t* row_offsets, const index_t* col_indices, int block, int value_bytes,
                       int index_bytes) {
    NodePattern pattern;
    const HostVector<char> repeats = find_repeats(rows, row_offsets, col_indices);
    double least = 0;
    for (int candidate = block ? block : 1; candidate <= (block ? block : kMaxBlock); ++candidate) {
        HostVector<index_t> begins = cut_nodes(repeats, candidate);
        // As many blocks as entries divided by the mean size of a node, squared.
        const double mean = rows / std::max(1.0, static_cast<double>(begins.size() - 1));
        const double bytes = (index_bytes + candidate * candidate * value_bytes) / (mean * mean);
        if (pattern.rows.empty() || bytes < least) {
            least = bytes;
            pattern.block = candidate;
            pattern.rows = std::move(begins);
        }
    }

    const index_t nodes = pattern.nodes();
    HostVector<index_t> node_of(rows);
    parallel_for(nodes, rows, [&](index_t node) {
        std::fill(node_of.begin() + pattern.rows[node], node_of.begin() + pattern.rows[node + 1], node);
    });
    // visit(column) for every block of a node up to its diagonal.
    const auto for_each_block = [&](index_t node, auto visit) {
        const index_t row = pattern.rows[node];
        for (index_t k = row_offsets[row], column; k < row_offsets[row + 1]; k += pattern.rows_of(column)) {
            column = node_of[col_indices[k]];
            if (column > node) break;
            visit(column);
        }
    };
    pattern.offsets.assign(nodes + std::size_t(1), 0);
    parallel_for(nodes, row_offsets[rows], [&](index_t node) {
        index_t count = 0;
        for_each_block(node, [&](index_t) { ++count; });
        pattern.offsets[node + 1] = count;
    });
    std::partial_sum(pattern.offsets.begin(), pattern.offsets.end(), pattern.offsets.begin());
    pattern.columns.resize(pattern.offsets[nodes]);
    parallel_for(nodes, row_offsets[rows], [&](index_t node) {
        index_t* column_out = pattern.columns.data() + pattern.offsets[node];
        for_each_block(node, [&](index_t column) { *column_out++ = column; });
    });
    return pattern;
}

}  // namespace spmvgpu
