#include "cuda/check.hpp"
#include "cuda/warp.cuh"
#include "formats/dia.hpp"

namespace spmvgpu {

namespace {

using namespace cuda;

constexpr int kInFlight = 8;  // diagonals in flight per thread; no index stands between a thread and its loads

// A thread per row. x is read where a diagonal lies inside the matrix, not where its slot is no padding: that would
// make every read of x wait for one of values.
template <class T>
__global__ void dia_thread_per_row(index_t rows, unsigned cols, unsigned diagonals, std::int64_t pitch,
                                   typename Dia<T>::Bits padding, const index_t* __restrict__ offsets,
                                   const T* __restrict__ values, Product<T> product) {
    const std::int64_t row = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (row >= rows) diagonals = 0;
    T sum = 0;
    wait_for_kernel_before();
    for (unsigned d = 0; d < diagonals; d += kInFlight) {
        T factors[kInFlight], gathered[kInFlight];
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) {
            // Unsigned: exact up to 2^32, and a column left of the matrix comes out beyond any cols.
            const unsigned col = d + i < diagonals ? static_cast<unsigned>(row) + offsets[d + i] : cols;
            factors[i] = col < cols ? load_once(values + (d + i) * pitch + row) : T(0);
            gathered[i] = col < cols ? load(product.x + col) : T(0);
        }
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) {
            if (Dia<T>::bits(factors[i]) != padding) sum += factors[i] * gathered[i];
        }
    }
    store_rows(product, row, rows, sum);
}

}  // namespace

template <class T>
void Dia<T>::spmv_cuda(const Product<T>& product, Stream stream) const {
    if (rows == 0) return;
    const auto threads = static_cast<unsigned>(tuning.block_size);
    launch_early(dia_thread_per_row<T>, {blocks_for(rows, tuning.block_size), threads}, stream, rows,
                 static_cast<unsigned>(cols), static_cast<unsigned>(diagonals()), pitch, padding, offsets.data(),
                 values.data(), product);
}

#define INSTANTIATE(T) template void Dia<T>::spmv_cuda(const Product<T>&, Stream) const;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)

}  // namespace spmvgpu
