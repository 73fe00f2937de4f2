#include "formats/papers/ell/kernels.cuh"
#include "formats/papers/ellpack_r/layout.hpp"

namespace spmvgpu {

template <class T>
void EllpackR<T>::spmv_cuda(const Product<T>& product, Stream stream) const {
    gpu::launch_ell<1>(ell.slots, row_lengths.data(), product, tuning.block_size, stream);
}

#define INSTANTIATE(T) template void EllpackR<T>::spmv_cuda(const Product<T>&, Stream) const;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
