// The pattern of a symmetric matrix in terms of its nodes: runs of rows with entries in the same columns, as in finite
// elements with several unknowns at a node. Because of the symmetry, the matrix then consists of dense blocks.
#pragma once

#include "core/array.hpp"
#include "core/types.hpp"

namespace spmvgpu {

// The lower triangle of blocks, with nodes in place of rows and columns.
struct NodePattern {
    int block = 1;  // rows in a node, at most
    index_t nodes = 0;
    index_t matrix_rows = 0;
    index_t blocks = 0;
    Array<index_t> rows;          // length nodes + 1: first row of each node
    Array<index_t> nodes_before;  // length matrix_rows + 1: nodes that begin before each row
    Array<index_t> offsets;       // length nodes + 1
    Array<index_t> columns;       // length blocks: nodes, ascending up to the node itself
    // Length blocks: position of a block's first entry in each row of its node, from that row's start.
    Array<index_t> places;

    bool uniform() const { return std::int64_t(nodes) * block == matrix_rows; }  // every node has `block` rows
};

constexpr int kMaxBlock = 3;

constexpr index_t node_of_row(const index_t* nodes_before, index_t row) { return nodes_before[row + 1] - 1; }

}  // namespace spmvgpu
