#include "cuda/columns.cuh"
#include "formats/sell.hpp"

namespace spmvgpu {

namespace {

template <class T>
struct SellRows {
    const index_t* __restrict__ slice_offsets;
    const index_t* __restrict__ col_indices;
    const T* __restrict__ values;
    const index_t* __restrict__ permutation;

    __device__ cuda::Row row(index_t r) const {
        const index_t slice = r / Sell<T>::kSliceRows;
        const index_t begin = slice_offsets[slice], end = slice_offsets[slice + 1];
        return {begin + r % Sell<T>::kSliceRows, static_cast<unsigned>(end - begin) / Sell<T>::kSliceRows};
    }
    __device__ index_t number(index_t r) const { return permutation ? permutation[r] : r; }
    __device__ void load(const cuda::Row& row, unsigned k, index_t& col, T& value) const {
        const std::int64_t slot = row.begin + std::int64_t(k) * Sell<T>::kSliceRows;
        col = col_indices[slot];
        value = cuda::load(values + slot);
    }
};

}  // namespace

template <class T>
void Sell<T>::multiply_columns_cuda(const Product<T>& product, Stream stream) const {
    const SellRows<T> stored{slice_offsets.data(), col_indices.data(), values.data(), permutation.data()};
    cuda::launch_columns<1>(stored, rows, node_rows, product, stream);
}

#define INSTANTIATE(T) template void Sell<T>::multiply_columns_cuda(const Product<T>&, Stream) const;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)

}  // namespace spmvgpu
