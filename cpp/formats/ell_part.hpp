// The regular part of a composed format: rows padded to one width and stored column by column, a row per thread. Data
// and the four functions of a format, so that a format which owns one calls them like its own.
#pragma once

#include "formats/csr.hpp"

namespace spmvgpu {

// Slots per column for so many rows: a multiple of 32, so that every column begins on a memory transaction of its own.
inline std::int64_t ell_pitch(index_t rows) { return (std::int64_t(rows) + 31) / 32 * 32; }

template <class T>
struct EllPart {
    index_t rows = 0, cols = 0, nnz = 0;
    index_t width = 0;           // columns of slots: the length of the longest row
    index_t pitch = 0;           // slots per column
    Array<index_t> col_indices;  // length width * pitch; slot of entry k of a row: k * pitch + row; -1 marks padding
    Array<T> values;             // length width * pitch

    template <class Self, class Visit>
    static void each_array(Self& self, Visit&& visit) {
        visit("col_indices", self.col_indices);
        visit("values", self.values);
    }

    static EllPart from_csr(const Csr<T>& matrix);
    Csr<T> to_csr() const;

    void spmv(const Product<T>& product) const;                      // OpenMP
    void spmv_cuda(const Product<T>& product, Stream stream) const;  // cuda/ell_part.cu
};

}  // namespace spmvgpu
