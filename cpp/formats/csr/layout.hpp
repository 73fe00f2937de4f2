// CSR, compressed sparse rows: the general-purpose format and its kernels.
//
// clang-format off
//     [ 1 7 . . ]      row_offsets   0   2   4       7     9      length rows + 1
//     [ . 2 8 . ]      col_indices   0 1 1 2 0 2 3 1 3            length nnz
//     [ 5 . 3 9 ]      values        1 7 2 8 5 3 9 6 4            length nnz
//     [ . 6 . 4 ]
// clang-format on
//
// Kernels (tunable `kernel`):
//     shared     warp per row, reduction in shared memory: CSR-R of Yin et al. 2012, section 4.2
//     half_warp  16 lanes per row, 256 threads, same reduction: CSR-O of Yin et al. 2012, section 5.1
//     shuffle    lanes_per_row lanes per row, warp-shuffle reduction: Tao and Huang 2015
//     balanced   tiles of whole rows with a bounded number of non-zeros, one thread block each (see Tile)
//     nodes      lanes_per_row lanes for up to eight neighbouring rows with equal columns, see Node: of dense blocks,
//                or of the unknowns at a node (the inodes of PETSc). Their columns and x are read once
// The first three suit rows of similar length; a few long rows stall them. `balanced` has no bad case, but passes every
// product through shared memory; so `shuffle` is the default where rows are even enough, `nodes` where most rows share
// their columns, and `balanced` elsewhere.
#pragma once

#include "formats/format.hpp"
#include "formats/shared/spans.hpp"
#include "formats/times.hpp"

namespace spmvgpu {

enum class CsrKernel { kAuto, kBalanced, kShuffle, kShared, kHalfWarp, kNodes };

struct CsrTuning {
    CsrKernel kernel = CsrKernel::kAuto;  // auto: the fastest of shuffle, nodes and balanced, as predicted
    int lanes_per_row = 0;                // shuffle, nodes (which takes 8 or more): 0 chooses from the mean row length
    int tile = 0;  // balanced: non-zeros per tile; 0 chooses from nnz, the processors of the device and the columns

    template <class Self, class Visit>
    static void each_param(Self& self, Visit&& visit) {
        visit("kernel", self.kernel, Names{"auto", "balanced", "shuffle", "shared", "half_warp", "nodes"});
        visit("lanes_per_row", self.lanes_per_row, OneOf{0, 1, 2, 4, 8, 16, 32});
        visit("tile", self.tile, OneOf{0, 256, 512, 1024, 2048, 4096});
    }

    static std::vector<Options> candidates();
};

// One thread block's work in the balanced kernel: `rows` whole rows that hold at most `tile` non-zeros together, or one
// row up to a limit, or, with rows == 0, a segment of a row that is longer still.
struct alignas(16) Tile {
    index_t row_begin;  // first row; of a segment, the position of its row in `spans`
    index_t nz_begin;
    std::uint16_t rows;
    std::uint16_t nonzeros;
    index_t note;  // rows: 1 if any is too long for its lanes; segment: its number

    // Non-zeros of a row that one lane adds up before the row counts as too long.
    static constexpr int kMaxPerLane = Features::kPerLane;

    // Threads that work on a tile. Each has at most kMaxPerThread non-zeros, all loaded before the first is used.
    static constexpr int kMaxPerThread = 8;
    static constexpr int threads(int tile) { return tile <= 2048 ? 256 : 512; }

    // Blocks of a processor at a time, limited by the registers for what a thread loads.
    static constexpr int blocks(int tile, int item_bytes) {
        const int of_256 = tile / threads(tile) * item_bytes <= 16 ? 8 : 6;
        return of_256 * 256 / threads(tile) / (item_bytes > 8 ? 2 : 1);
    }

    // A thread reads no more of a row than of a tile of whole rows: longer rows are cut. Where rows have some thousand
    // entries each, few are cut, and no block waits for others.
    static constexpr index_t kLongRow = 4096;
    static constexpr index_t longest_row(int tile, index_t rows, index_t nnz) {
        const std::int64_t many = std::int64_t(rows) * kLongRow;
        const bool are_long = nnz >= many / 4 && nnz <= many;
        const index_t most = kMaxPerThread * threads(tile);
        return are_long && most < kLongRow ? kLongRow : most;
    }

    // Non-zeros of a segment. If all processors together can load the whole matrix at once, a product takes as long as
    // its longest row, so a thread loads all of its share at once. Larger matrices hide that, and gain by fewer
    // segments.
    static constexpr index_t segment(int tile, index_t nnz, int processors) {
        const int most = nnz < times::loads_at_once(processors) ? times::kInFlight : kMaxPerThread;
        return most * threads(tile);
    }
};

// The work of some lanes in the nodes kernel: neighbouring rows with equal columns. Longer rows are cut, as tiles are:
// their nodes are empty, and the balanced kernel multiplies their segments.
struct alignas(16) Node {
    index_t row, rows;  // number of the first row, and number of rows
    index_t begin;      // first non-zero
    index_t length;     // non-zeros of each row

    static constexpr int kMostRows = Features::kNodeRows, kLeastLanes = 8, kTile = 1024;
    static constexpr index_t longest_row(int tile) { return tile > kTile ? tile : kTile; }
};

// The tiles of the balanced kernel, also with the nodes kernel, where some rows are cut or products with several
// vectors take them; the others and the CPU have none.
struct CsrPlan {
    CsrTuning tuning;
    Cost cost;
    Array<Tile> tiles;
    Array<RowSpan> spans;  // rows that are cut into segments
    index_t segments = 0;  // partial sums that the spans refer to
    Array<Node> nodes;
    int node_rows = 1;        // see find_node_rows
    index_t longest_row = 0;  // or 0, if it was not asked for
};

template <class T>
struct Csr {
    static constexpr const char* kName = "csr";
    static constexpr Traits kTraits{.multiplies_columns = true, .builds_on_gpu = true, .new_values = NewValues::kCopy};
    using value_type = T;
    using Tuning = CsrTuning;
    using Plan = CsrPlan;

    index_t rows = 0, cols = 0, nnz = 0;
    Array<index_t> row_offsets;  // length rows + 1
    Array<index_t> col_indices;  // length nnz, ascending in each row
    Array<T> values;             // length nnz
    Array<Tile> tiles;           // segments of rows first; empty on the CPU and for kernels but balanced and nodes
    Array<RowSpan> spans;        // rows that are cut into segments
    index_t segments = 0;        // partial sums that the spans refer to
    Array<Node> nodes;           // work of the nodes kernel
    Tuning tuning;
    int node_rows = 1;  // see find_node_rows

    template <class Self, class Visit>
    static void each_array(Self& self, Visit&& visit) {
        visit("row_offsets", self.row_offsets);
        visit("col_indices", self.col_indices);
        visit("values", self.values);
        visit("tiles", self.tiles);
        visit("spans", self.spans);
        visit("nodes", self.nodes);
    }

    static Plan plan(const CsrMatrix<T>& csr, const Tuning& tuning, const Target& target);
    static Csr from_csr(const CsrMatrix<T>& csr, const Plan& plan);
    CsrMatrix<T> to_csr() const { return {rows, cols, nnz, row_offsets, col_indices, values}; }
    // Each segment has a partial sum for each column, and another one for a product with a single vector; each cut row
    // has a counter of the segments whose sums of columns are there.
    static constexpr index_t kScratchPerSegment = kMaxColumns + 1;
    static constexpr std::size_t workspace_bytes(index_t segments, std::size_t spans) {
        return std::size_t(segments) * kScratchPerSegment * sizeof(T) + spans * sizeof(unsigned);
    }
    std::size_t workspace_bytes() const { return workspace_bytes(segments, spans.size()); }

    void spmv(const Product<T>& product) const;
    void multiply_panel(const Product<T>& product) const;
    void spmv_cuda(const Product<T>& product, Stream stream) const;
    void multiply_columns_cuda(const Product<T>& product, Stream stream) const;
    void multiply_nodes_cuda(const Product<T>& product, Stream stream) const;  // rows that are not cut
};

}  // namespace spmvgpu
