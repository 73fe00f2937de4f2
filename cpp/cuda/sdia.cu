#include "cuda/diagonals.cuh"
#include "formats/sdia.hpp"

namespace spmvgpu {

template <class T>
void Sdia<T>::spmv_cuda(const Product<T>& product, Stream stream) const {
    if (rows == 0) return;
    Product<T> of_upper = product;
    of_upper.x += first_col;
    const cuda::Diagonals<T> matrix{.rows = rows,
                                    .before = before,
                                    .cols = static_cast<unsigned>(upper.cols),
                                    .stored = static_cast<unsigned>(upper.diagonals()),
                                    .mirrored = static_cast<unsigned>(mirrored()),
                                    .pitch = upper.pitch,
                                    .padding = upper.padding,
                                    .mirror = mirror()};
    cuda::launch_diagonals<true>(matrix, upper.offsets.data(), upper.values.data(), of_upper, tuning.block_size,
                                 stream);
}

#define INSTANTIATE(T) template void Sdia<T>::spmv_cuda(const Product<T>&, Stream) const;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)

}  // namespace spmvgpu
