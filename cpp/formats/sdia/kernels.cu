#include "formats/dia/diagonals.cuh"
#include "formats/sdia/rows.hpp"

namespace spmvgpu {

template <class T>
void Sdia<T>::spmv_cuda(const Product<T>& product, Stream stream) const {
    if (rows == 0) return;
    Product<T> of_upper = product;
    of_upper.x += first_col;
    gpu::launch_diagonals<true>(gpu::diagonals_of(*this), upper.offsets.data(), upper.values.data(), of_upper,
                                tuning.block_size, stream);
}

#define INSTANTIATE(T) template void Sdia<T>::spmv_cuda(const Product<T>&, Stream) const;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
