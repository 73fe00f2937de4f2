// TSMV, task-scheduled symmetric product: half of a symmetric or Hermitian matrix, in an order in which the threads of
// a block can add to y without atomics. After Mironowicz, Dziekonski and Mrozowski, "Efficient symmetric sparse
// matrix-vector product on a GPU".
//
// clang-format off
//     [ 1 . . . 5 ]    The lower triangle, cut into tiles, a thread block each; here of 3 and of 2 rows. A tile numbers
//     [ . 2 6 . . ]    the columns left of its rows that it has entries in, its halo, and then its own rows; x and y
//     [ . 6 3 7 . ]    for all of these lie in shared memory.
//     [-----------]
//     [ . . 7 4 8 ]    tiles       (0,0,0) (3,0,2) (5,2,3)   length tiles + 1: node, halo and slice it begins with
//     [ 5 . . 8 9 ]    halo_nodes  0 2                       here of the second tile, whose own rows are its 2 and 3
// clang-format on
//
// Neighbouring rows with entries in the same columns, such as the rows of a finite element's node with several
// unknowns, form one node of up to `block` rows; here of one. By symmetry so do the columns, and the matrix consists of
// dense blocks. A thread has a node; a slice of the tile has one for each thread, longest first, without empty ones. In
// every step of a slice a thread takes a block of its node: it adds block * x[column] to the sums of its rows, in
// registers, and the transposed block * x[node] to y[column], except in the node's own column, where the whole block is
// stored. The blocks of a node are ordered so that no two threads add to the same column in a step; a thread without a
// block left finds a fake block. A step's slots end with the last warp that has a block.
//
// clang-format off
//     slice         rows 2 0   row 1  rows 4 3             with two threads
//     thread_nodes  2 0        1 -    3 2                  length slices * threads, in the tile's numbering
//     slice_steps   0          2      3              6     length slices + 1: first step of each slice
//     step_offsets  0    2     4      5    7    9    11    length steps + 1: first slot of each step
//     columns       1 0  2 -   1      0 1  2 -  3 2        length slots, in the tile's numbering
//     values        6 1  3 .   2      5 7  8 .  9 4        block * block for each slot
// clang-format on
//
// The values of a step come entry by entry of the blocks, each for all threads; rows and columns that a small node
// lacks are zeros, and so is their x. y for the tile's own rows is then stored, and y for its halo is left in scratch,
// from where a second kernel adds it to the nodes: node merge_nodes[i] gets the terms that merge_sources lists between
// merge_offsets[i] and merge_offsets[i + 1], in that order.
//
// The rows and columns of hubs, which would make the schedule very long, are left to `remainder`, a whole matrix in
// csr. On matrices of finite elements it is empty.
//
// variant="poster" is the method as it was published: square blocks on the diagonal instead of tiles with a halo, all
// entries outside them in the remainder; single rows; and a thread goes on to another row whenever it is done with one,
// which a flag says. It has no thread_nodes, and in place of `columns`
// clang-format off
//                     coordinates   row << 17 | column << 1 | last of its row        length slots
// clang-format on
//
// For symmetric matrices whose entries lie close to the diagonal, such as finite elements after reverse Cuthill-McKee.
// Do not use it on graphs without such an order: there the halo outweighs the saving of half of the entries, and past
// `max_memory` times the memory of csr the format refuses.
#pragma once

#include "formats/csr/layout.hpp"
#include "formats/format.hpp"
#include "formats/shared/symmetry.hpp"
#include "formats/tsmv/plan.hpp"

namespace spmvgpu {

struct TsmvTuning {
    TsmvVariant variant = TsmvVariant::kHalo;
    int threads = 0;  // per block; for these four, 0 chooses from the matrix and the device
    int slices = 0;   // per tile
    int block = 0;    // rows of a node, at most
    int depth = 0;    // CUDA, of halo: how far ahead of its use the matrix is loaded; costs registers
    Symmetry symmetry = Symmetry::kAuto;  // of a complex matrix: the entry (j, i) where (i, j) is stored
    double max_memory = 1.0;              // refuse to store more than this many times the bytes of csr

    template <class Self, class Visit>
    static void each_param(Self& self, Visit&& visit) {
        visit("variant", self.variant, Names{"halo", "poster"});
        visit("threads", self.threads, OneOf{0, 64, 128, 256, 512});
        visit("slices", self.slices, OneOf{0, 1, 2, 4, 8});
        visit("block", self.block, OneOf{0, 1, 2, 3});
        visit("depth", self.depth, OneOf{0, 1, 2, 4});
        visit("symmetry", self.symmetry, Names{"auto", "symmetric", "hermitian"});
        visit("max_memory", self.max_memory, Range{0.1, 1e6});
    }

    // Resident threads per multiprocessor for which a depth above 1 leaves registers.
    static constexpr int threads_to_hold(int depth) { return depth == 4 ? 384 : 640; }

    static std::vector<Options> candidates();
};

// An entry of the poster's variant, packed.
struct TsmvCoordinate {
    static constexpr std::uint32_t kFake = 0xFFFFFFFF;

    static constexpr std::uint32_t pack(std::uint32_t row, std::uint32_t column) { return row << 17 | column << 1; }
    static constexpr std::uint32_t row(std::uint32_t packed) { return packed >> 17; }
    static constexpr std::uint32_t column(std::uint32_t packed) { return packed >> 1 & 0xFFFF; }
    static constexpr std::uint32_t kLast = 1;  // the row's sum is complete
};

template <class T>
struct TsmvPlan {
    TsmvTuning tuning;
    Cost cost;
    TsmvLayout layout;
    Array<index_t> merge_nodes, merge_offsets, merge_sources;  // see Tsmv
    CsrMatrix<T> remainder;  // the part that the layout leaves out; without arrays if it is empty
    CsrPlan remainder_plan;
};

template <class T>
struct Tsmv {
    static constexpr const char* kName = "tsmv";
    static constexpr Traits kTraits{.needs_symmetry = true,
                                    .reads_all_of_x = true,
                                    .multiplies_panels = false,
                                    .builds_on_gpu = true,
                                    .new_values = NewValues::kPass,
                                    .has_long_plan = true};
    static constexpr std::uint16_t kFake = 0xFFFF;    // as a column
    static constexpr std::uint16_t kNoNode = 0xFFFF;  // in thread_nodes
    using value_type = T;
    using Tuning = TsmvTuning;
    using Plan = TsmvPlan<T>;

    index_t rows = 0, cols = 0, nnz = 0;
    Array<TsmvTile> tiles;
    Array<index_t> node_rows;  // length nodes + 1: first row of each; empty if all nodes have `block` rows
    Array<index_t> halo_nodes;
    Array<index_t> slice_steps;
    Array<std::uint16_t> thread_nodes;
    Array<index_t> step_offsets;
    Array<std::uint16_t> columns;
    Array<std::uint32_t> coordinates;
    Array<T> values;
    Array<index_t> merge_nodes;    // ascending
    Array<index_t> merge_offsets;  // length merge_nodes + 1
    Array<index_t> merge_sources;  // length halo_nodes
    Csr<T> remainder;              // without arrays if it has no entries
    std::size_t shared_bytes = 0;  // for the most demanding thread block
    Tuning tuning;

    template <class Self, class Visit>
    static void each_array(Self& self, Visit&& visit) {
        visit("tiles", self.tiles);
        visit("node_rows", self.node_rows);
        visit("halo_nodes", self.halo_nodes);
        visit("slice_steps", self.slice_steps);
        visit("thread_nodes", self.thread_nodes);
        visit("step_offsets", self.step_offsets);
        visit("columns", self.columns);
        visit("coordinates", self.coordinates);
        visit("values", self.values);
        visit("merge_nodes", self.merge_nodes);
        visit("merge_offsets", self.merge_offsets);
        visit("merge_sources", self.merge_sources);
        Csr<T>::each_array(self.remainder,
                           [&](std::string name, auto& array) { visit(("remainder_" + name).c_str(), array); });
    }

    static Plan plan(const CsrMatrix<T>& csr, const Tuning& tuning, const Target& target);
    static Tsmv from_csr(const CsrMatrix<T>& csr, const Plan& plan);
    CsrMatrix<T> to_csr() const;

    index_t tile_count() const { return tiles.size() ? static_cast<index_t>(tiles.size()) - 1 : 0; }
    index_t first_row(index_t node) const { return node_rows.size() ? node_rows[node] : node * tuning.block; }
    // The index in `values` of entry i of a thread's block in a step.
    std::size_t value_index(index_t step, index_t thread, int i) const {
        const std::size_t begin = step_offsets[step], slots = step_offsets[step + 1] - begin;
        return begin * tuning.block * tuning.block + i * slots + thread;
    }
    // y of every halo, then the workspace of the remainder.
    static std::size_t halo_bytes(std::size_t halo_nodes, int block) {
        return (halo_nodes * block * sizeof(T) + 255) / 256 * 256;
    }
    std::size_t halo_bytes() const { return halo_bytes(halo_nodes.size(), tuning.block); }
    std::size_t workspace_bytes() const { return halo_bytes() + remainder.workspace_bytes(); }
    Mirror<T> mirror() const { return Mirror<T>(tuning.symmetry == Symmetry::kHermitian); }
    Product<T> remainder_product(const Product<T>& product) const {
        Product<T> rest = product;
        rest.beta = T(1);
        rest.scratch = static_cast<char*>(product.scratch) + halo_bytes();
        return rest;
    }

    void spmv(const Product<T>& product) const;
    void spmv_cuda(const Product<T>& product, Stream stream) const;
};

}  // namespace spmvgpu
