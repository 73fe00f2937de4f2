#include "formats/dia/diagonals.cuh"

namespace spmvgpu {

template <class T>
void Dia<T>::spmv_cuda(const Product<T>& product, Stream stream) const {
    if (rows == 0) return;
    gpu::launch_diagonals<false>(gpu::diagonals_of(*this), offsets.data(), values.data(), product, tuning.block_size,
                                 stream);
}

#define INSTANTIATE(T) template void Dia<T>::spmv_cuda(const Product<T>&, Stream) const;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
