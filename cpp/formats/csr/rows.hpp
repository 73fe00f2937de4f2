#pragma once

#include "formats/csr/layout.hpp"
#include "formats/rows.hpp"

namespace spmvgpu::gpu {

template <class T>
struct CsrRows {
    const index_t* __restrict__ row_offsets;
    const index_t* __restrict__ col_indices;
    const T* __restrict__ values;

    SPMVGPU_ON_DEVICE Row row(index_t r) const {
        const index_t begin = row_offsets[r];
        return {begin, static_cast<unsigned>(row_offsets[r + 1] - begin)};
    }
    SPMVGPU_ON_DEVICE index_t number(index_t r) const { return r; }
    SPMVGPU_ON_DEVICE void load(const Row& row, unsigned k, index_t& col, T& value) const {
        col = col_indices[row.begin + k];
        value = gpu::load(values + row.begin + k);
    }
};
template <class T>
CsrRows<T> rows_of(const Csr<T>& csr) {
    return {csr.row_offsets.data(), csr.col_indices.data(), csr.values.data()};
}

}  // namespace spmvgpu::gpu
