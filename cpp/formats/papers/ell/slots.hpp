// The padded store that ELLPACK, ELLPACK-R and ELLR-T have in common, and what the three do alike on the CPU.
//
// Slots form columns of `pitch` slots each, a slot for every thread of a product, so that the threads of a warp always
// read neighbouring slots. A row belongs to threads_per_row neighbouring threads (one, but in ELLR-T), which take its
// entries in turn: entry k of a row is in column k / threads_per_row, in thread k % threads_per_row of that row.
#pragma once

#include "formats/format.hpp"
#include "formats/padding.hpp"

namespace spmvgpu {

// Everything that is decided before a slot is stored.
struct EllShape {
    index_t rows = 0;
    int threads_per_row = 1;  // a power of two up to 32
    index_t width = 0;        // columns of slots
    std::int64_t pitch = 0;   // slots per column: a thread each, and threads without a row up to a multiple of 32

    constexpr std::int64_t slots() const { return width * pitch; }
    constexpr std::int64_t slot(index_t row, index_t k) const {
        return k / threads_per_row * pitch + std::int64_t(row) * threads_per_row + k % threads_per_row;
    }
};

template <class Tuning>
struct EllPlan {
    Tuning tuning;
    Cost cost;
    EllShape shape;
};

template <class T>
struct EllSlots {
    EllShape shape;
    Array<index_t> col_indices;  // length width * pitch; -1 marks padding
    Array<T> values;             // length width * pitch
    int node_rows = 1;           // see find_node_rows

    template <class Self, class Visit>
    static void each_array(Self& self, Visit&& visit) {
        visit("col_indices", self.col_indices);
        visit("values", self.values);
    }

    // Of a format called `name` that stores this and extra_bytes. Throws FormatError beyond max_padding.
    static Cost cost(const char* name, const EllShape& shape, const CsrMatrix<T>& csr, double max_padding,
                     std::size_t extra_bytes, const Target& target);
    CsrMatrix<T> to_csr(index_t cols, index_t nnz) const;

    // With row_lengths (or nullptr), columns that are padding throughout a group of neighbouring rows are not read.
    void spmv(const index_t* row_lengths, const Product<T>& product) const;            // on the CPU
    void multiply_panel(const index_t* row_lengths, const Product<T>& product) const;  // several vectors
};

}  // namespace spmvgpu
