#include "cuda/check.hpp"
#include "cuda/warp.cuh"
#include "formats/sdia.hpp"

namespace spmvgpu {

namespace {

using namespace cuda;

constexpr int kInFlight = 8;  // diagonals in flight per thread, as in dia

// A thread per row. Diagonals left of the main one are the mirror images of the last `mirrored` stored ones, from the
// last one on; then come the stored ones. What is read as a mirror image is not needed any more after that.
template <class T>
__global__ void sdia_thread_per_row(index_t rows, index_t cols, index_t before, unsigned diagonals, unsigned mirrored,
                                    std::int64_t pitch, typename Dia<T>::Bits padding,
                                    const index_t* __restrict__ offsets, const T* __restrict__ values, Mirror<T> mirror,
                                    Product<T> product) {
    const std::int64_t own_row = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x, row = own_row + before;
    const unsigned count = own_row < rows ? mirrored + diagonals : 0;
    T sum = 0;
    wait_for_kernel_before();
    for (unsigned begin = 0; begin < count; begin += kInFlight) {
        T factors[kInFlight], gathered[kInFlight];
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) {
            const unsigned k = begin + i;
            factors[i] = T(std::bit_cast<Real<T>>(padding));
            gathered[i] = T(0);
            if (k < mirrored) {
                const unsigned d = diagonals - 1 - k;
                const std::int64_t col = row - offsets[d];
                if (col >= 0) {
                    factors[i] = load_once(values + d * pitch + col);
                    gathered[i] = load(product.x + col);
                }
            } else if (k < count) {
                const unsigned d = k - mirrored;
                const std::int64_t col = row + offsets[d];
                if (col < cols) {
                    factors[i] = load(values + d * pitch + row);
                    gathered[i] = load(product.x + col);
                }
            }
        }
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) {
            if (Dia<T>::bits(factors[i]) == padding) continue;
            sum += (begin + i < mirrored ? mirror(factors[i]) : factors[i]) * gathered[i];
        }
    }
    store_rows(product, own_row, rows, sum);
}

}  // namespace

template <class T>
void Sdia<T>::spmv_cuda(const Product<T>& product, Stream stream) const {
    if (rows == 0) return;
    Product<T> of_upper = product;
    of_upper.x += first_col;
    const auto threads = static_cast<unsigned>(tuning.block_size);
    launch_early(sdia_thread_per_row<T>, {blocks_for(rows, tuning.block_size), threads}, stream, rows, upper.cols,
                 before, static_cast<unsigned>(upper.diagonals()), static_cast<unsigned>(mirrored()), upper.pitch,
                 upper.padding, upper.offsets.data(), upper.values.data(), mirror(), of_upper);
}

#define INSTANTIATE(T) template void Sdia<T>::spmv_cuda(const Product<T>&, Stream) const;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)

}  // namespace spmvgpu
