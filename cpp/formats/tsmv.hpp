// TSMV, task-scheduled symmetric product: half of a symmetric matrix, in an order in which the threads of a block can
// add to y without atomics. After Mironowicz, Dziekonski and Mrozowski, "Efficient symmetric sparse matrix-vector
// product on a GPU".
//
//     [ 1 . . . 5 ]   The lower triangle, cut into tiles of rows, a thread block each; here of 3 and 2 rows. A tile
//     [ . 2 6 . . ]   numbers the columns left of its rows that it has entries in, its halo, and then its own rows; x
//     and [ . 6 3 7 . ]   y for all of these lie in shared memory.
//     [-.-.-7-4-8-]   tiles         (0,0,0)  (3,0,2)  (5,2,3)     length tiles + 1: row, halo and slice it begins with
//     [ 5 . . 8 9 ]   halo_columns           0 2                  here of the second tile, whose own rows are its 2 and
//     3
//
// Neighbouring rows with entries in the same columns, of a node with several unknowns, form groups of up to
// `row_group`; here of one. A thread has a group, a slice of the tile a group for each thread, longest first; empty
// ones are left out. In every step of a slice a thread takes a column of its group: for each row i of the group and its
// entry a there, a * x[column] goes to the row's sum, in a register, and the sum of all a * x[row i] to y[column]. In
// the group's own columns there is nothing to add to y, as all of its square on the diagonal is stored. The columns of
// a group are put in such an order that no two threads add to the same one in a step; where there is none left for a
// thread, it finds a fake entry. A step's slots end with the last warp that has an entry.
//
//                     slice         rows 2 1   row 0   rows 4 3   with two threads
//                     thread_rows   2 1        0 -     3 2        length slices * row_group * threads
//                     slice_steps   0          2       3      6   length slices + 1: first step of each slice
//                     step_offsets  0   2      4       5 ...      length steps + 1: first slot of each step
//                     columns       1 1   2 -  0       ...        length slots, in the tile's numbering, - for fake
//                     values        6 2   3 .  1       ...        row_group for each slot
//
// The values of a step come row by row of the groups, each for all threads. y for the tile's own rows is then stored,
// and y for its halo is left in scratch, from where a second kernel adds it to the rows that it belongs to: row
// merge_rows[i] gets what merge_sources lists between merge_offsets[i] and merge_offsets[i + 1], in that order.
//
// What would blow the schedule up, the rows and columns of hubs, is left to `remainder`, a whole matrix in csr. On
// matrices of finite elements it is empty.
//
// variant="poster" is the method as it was published: square blocks on the diagonal instead of tiles with a halo, all
// entries outside them in the remainder; single rows; and a thread goes on to another row whenever it is done with one,
// which a flag says. It has no thread_rows, and in place of `columns`
//                     coordinates   row << 17 | column << 1 | last of its row        length slots
//
// For symmetric matrices whose entries lie close to the diagonal, such as finite elements after Reverse Cuthill-McKee.
// Do not use it on graphs without such an order: there the halo outweighs what half the entries save, and past
// `max_memory` times the memory of csr the format refuses.
#pragma once

#include "formats/csr.hpp"
#include "formats/tsmv_plan.hpp"

namespace spmvgpu {

struct TsmvTuning {
    TsmvVariant variant = TsmvVariant::kHalo;
    int threads = 0;          // per block; these three: 0 chooses from the matrix and the device
    int slices = 0;           // per tile
    int row_group = 0;        // rows per thread, at most
    double max_memory = 1.0;  // refuse to store more than this many times the bytes of csr

    template <class Self, class Visit>
    static void each_param(Self& self, Visit&& visit) {
        visit("variant", self.variant, Names{"halo", "poster"});
        visit("threads", self.threads, OneOf{0, 64, 128, 256, 512});
        visit("slices", self.slices, OneOf{0, 1, 2, 4, 8});
        visit("row_group", self.row_group, OneOf{0, 1, 2, 3});
        visit("max_memory", self.max_memory, Range{0.1, 1e6});
    }

    static std::vector<Options> candidates();
};

// Where a tile begins; it ends where the next one begins.
struct TsmvTile {
    index_t row, halo, slice;
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
struct Tsmv {
    static constexpr const char* kName = "tsmv";
    static constexpr bool kSymmetric = true;
    static constexpr std::uint16_t kFake = 0xFFFF;   // as a column
    static constexpr std::uint16_t kNoRow = 0xFFFF;  // in thread_rows
    using value_type = T;
    using Tuning = TsmvTuning;

    index_t rows = 0, cols = 0, nnz = 0;
    Array<TsmvTile> tiles;
    Array<index_t> halo_columns;
    Array<index_t> slice_steps;
    Array<std::uint16_t> thread_rows;
    Array<index_t> step_offsets;
    Array<std::uint16_t> columns;
    Array<std::uint32_t> coordinates;
    Array<T> values;
    Array<index_t> merge_rows;     // ascending
    Array<index_t> merge_offsets;  // length merge_rows + 1
    Array<index_t> merge_sources;  // length halo_columns
    Csr<T> remainder;              // without arrays if it has no entries
    std::size_t shared_bytes = 0;  // of the most demanding block
    Tuning tuning;

    template <class Self, class Visit>
    static void each_array(Self& self, Visit&& visit) {
        visit("tiles", self.tiles);
        visit("halo_columns", self.halo_columns);
        visit("slice_steps", self.slice_steps);
        visit("thread_rows", self.thread_rows);
        visit("step_offsets", self.step_offsets);
        visit("columns", self.columns);
        visit("coordinates", self.coordinates);
        visit("values", self.values);
        visit("merge_rows", self.merge_rows);
        visit("merge_offsets", self.merge_offsets);
        visit("merge_sources", self.merge_sources);
        Csr<T>::each_array(self.remainder,
                           [&](std::string name, auto& array) { visit(("remainder_" + name).c_str(), array); });
    }

    static Estimate estimate(const Csr<T>& matrix, const Tuning& tuning);
    static Tsmv from_csr(const Csr<T>& matrix, const Tuning& tuning, const Target& target);
    Csr<T> to_csr() const;

    index_t tile_count() const { return tiles.size() ? static_cast<index_t>(tiles.size()) - 1 : 0; }
    // Where thread_rows has row i of a thread's group, and where `values` has its entry in a step.
    std::size_t row_place(index_t slice, index_t thread, int i) const {
        return (std::size_t(slice) * tuning.row_group + i) * tuning.threads + thread;
    }
    std::size_t value_place(index_t step, index_t thread, int i) const {
        const std::size_t begin = step_offsets[step], slots = step_offsets[step + 1] - begin;
        return begin * tuning.row_group + i * slots + thread;
    }
    // y of every halo, then what the remainder needs.
    std::size_t halo_bytes() const { return (halo_columns.size() * sizeof(T) + 255) / 256 * 256; }
    std::size_t workspace_bytes() const { return halo_bytes() + remainder.workspace_bytes(); }
    Product<T> remainder_product(const Product<T>& product) const {
        return {product.x, product.y, product.alpha, T(1), static_cast<char*>(product.scratch) + halo_bytes()};
    }

    void spmv(const Product<T>& product) const;                      // OpenMP
    void spmv_cuda(const Product<T>& product, Stream stream) const;  // cuda/tsmv.cu
};

}  // namespace spmvgpu
