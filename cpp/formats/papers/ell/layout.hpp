// Common parts of ELLPACK, ELLPACK-R and ELLR-T, which differ in their names, their tuning, and whether the length of
// every row is stored.
//
// Slots form columns of `pitch` slots each, a slot for every thread of a product, so that the threads of a warp always
// read neighbouring slots. A row belongs to threads_per_row neighbouring threads (one, except in ELLR-T), which take
// its entries in turn: entry k of a row is in column k / threads_per_row, in thread k % threads_per_row of that row.
#pragma once

#include "formats/format.hpp"
#include "formats/padding.hpp"

namespace spmvgpu {

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

    // The cost of a format called `name` that stores this and extra_bytes. Throws FormatError beyond max_padding.
    static Cost cost(const char* name, const EllShape& shape, const CsrMatrix<T>& csr, double max_padding,
                     std::size_t extra_bytes, const Target& target);
    CsrMatrix<T> to_csr(index_t cols, index_t nnz) const;

    // With row_lengths (or nullptr), columns that are padding in a whole group of neighbouring rows are not read.
    void spmv(const index_t* row_lengths, const Product<T>& product) const;
    void multiply_panel(const index_t* row_lengths, const Product<T>& product) const;
};

// One of the three formats. Kind defines kName, Tuning and kHasLengths.
template <class T, class Kind>
struct Ell {
    static constexpr const char* kName = Kind::kName;
    static constexpr Traits kTraits{
        .multiplies_columns = true, .builds_on_gpu = true, .new_values = NewValues::kPass, .only_if_asked = true};
    using value_type = T;
    using Tuning = typename Kind::Tuning;
    using Plan = EllPlan<Tuning>;

    index_t rows = 0, cols = 0, nnz = 0;
    EllSlots<T> slots;
    Array<index_t> row_lengths;  // length rows, where the format has them; a product then stops at the end of a row
    Tuning tuning;

    template <class Self, class Visit>
    static void each_array(Self& self, Visit&& visit) {
        EllSlots<T>::each_array(self.slots, visit);
        if constexpr (Kind::kHasLengths) visit("row_lengths", self.row_lengths);
    }

    const index_t* lengths() const { return Kind::kHasLengths ? row_lengths.data() : nullptr; }

    static Plan plan(const CsrMatrix<T>& csr, const Tuning& tuning, const Target& target);
    static Ell from_csr(const CsrMatrix<T>& csr, const Plan& plan);
    CsrMatrix<T> to_csr() const { return slots.to_csr(cols, nnz); }
    std::size_t workspace_bytes() const { return 0; }

    void spmv(const Product<T>& product) const { slots.spmv(lengths(), product); }
    void multiply_panel(const Product<T>& product) const { slots.multiply_panel(lengths(), product); }
    void spmv_cuda(const Product<T>& product, Stream stream) const;
    void multiply_columns_cuda(const Product<T>& product, Stream stream) const;
};

}  // namespace spmvgpu
