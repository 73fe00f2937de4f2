#include "cuda/ell.cuh"
#include "formats/ellpack_r.hpp"

namespace spmvgpu {

template <class T>
void EllpackR<T>::spmv_cuda(const Product<T>& product, Stream stream) const {
    cuda::launch_ell<1>(ell.slots, row_lengths.data(), product, tuning.block_size, stream);
}

template void EllpackR<float>::spmv_cuda(const Product<float>&, Stream) const;
template void EllpackR<double>::spmv_cuda(const Product<double>&, Stream) const;

}  // namespace spmvgpu
