#include <bit>

#include "cuda/columns.cuh"
#include "formats/ellpack_r.hpp"
#include "formats/ellr_t.hpp"

namespace spmvgpu {

namespace {

template <class T>
struct EllRows {
    EllShape shape;
    unsigned threads_shift;  // threads_per_row is a power of two
    const index_t* __restrict__ row_lengths;
    const index_t* __restrict__ col_indices;
    const T* __restrict__ values;

    __device__ cuda::Row row(index_t r) const {
        return {std::int64_t(r) << threads_shift,
                static_cast<unsigned>(row_lengths ? row_lengths[r] : shape.width << threads_shift)};
    }
    __device__ index_t number(index_t r) const { return r; }
    __device__ void load(const cuda::Row& row, unsigned k, index_t& col, T& value) const {
        const std::int64_t slot =
            row.begin + std::int64_t(k >> threads_shift) * shape.pitch + (k & ((1u << threads_shift) - 1));
        col = col_indices[slot];
        value = cuda::load(values + slot);
    }
};

template <class T>
void multiply(const EllSlots<T>& slots, const index_t* row_lengths, const Product<T>& product, Stream stream) {
    const auto threads = static_cast<unsigned>(slots.shape.threads_per_row);
    const EllRows<T> stored{slots.shape, static_cast<unsigned>(std::countr_zero(threads)), row_lengths,
                            slots.col_indices.data(), slots.values.data()};
    cuda::launch_columns<1>(stored, slots.shape.rows, slots.node_rows, product, stream);
}

}  // namespace

template <class T>
void Ellpack<T>::multiply_columns_cuda(const Product<T>& product, Stream stream) const {
    multiply(slots, nullptr, product, stream);
}

template <class T>
void EllpackR<T>::multiply_columns_cuda(const Product<T>& product, Stream stream) const {
    multiply(ell.slots, row_lengths.data(), product, stream);
}

template <class T>
void EllrT<T>::multiply_columns_cuda(const Product<T>& product, Stream stream) const {
    multiply(slots, row_lengths.data(), product, stream);
}

#define INSTANTIATE(T)                                                                 \
    template void Ellpack<T>::multiply_columns_cuda(const Product<T>&, Stream) const;  \
    template void EllpackR<T>::multiply_columns_cuda(const Product<T>&, Stream) const; \
    template void EllrT<T>::multiply_columns_cuda(const Product<T>&, Stream) const;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)

}  // namespace spmvgpu
