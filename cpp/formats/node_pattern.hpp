// The pattern of a symmetric matrix in terms of its nodes: runs of rows with entries in the same columns, as finite
// elements with several unknowns at a node have them. Being symmetric, the matrix is one of dense blocks then.
#pragma once

#include "core/host_vector.hpp"
#include "core/types.hpp"

namespace spmvgpu {

// The lower triangle of blocks, a node taking the place of a row and of a column.
struct NodePattern {
    int block = 1;                // rows in a node, at most
    HostVector<index_t> rows;     // length nodes + 1: first row of each node
    HostVector<index_t> offsets;  // length nodes + 1
    HostVector<index_t> columns;  // length offsets[nodes]: nodes, ascending up to the node itself

    index_t nodes() const { return static_cast<index_t>(rows.size()) - 1; }
    index_t rows_of(index_t node) const { return rows[node + 1] - rows[node]; }
    bool uniform() const { return std::int64_t(nodes()) * block == rows.back(); }  // every node has `block` rows
};

constexpr int kMaxBlock = 3;

// Of a symmetric CSR pattern. Block 0 chooses the one of which the blocks, stored with value_bytes per value and
// index_bytes per block, take least memory.
NodePattern find_nodes(index_t rows, const index_t* row_offsets, const index_t* col_indices, int block, int value_bytes,
                       int index_bytes);

}  // namespace spmvgpu
