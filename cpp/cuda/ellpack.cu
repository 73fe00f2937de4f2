#include "cuda/ell.cuh"
#include "formats/ellpack.hpp"

namespace spmvgpu {

template <class T>
void Ellpack<T>::spmv_cuda(const Product<T>& product, Stream stream) const {
    cuda::launch_ell<1>(slots, nullptr, product, tuning.block_size, stream);
}

template void Ellpack<float>::spmv_cuda(const Product<float>&, Stream) const;
template void Ellpack<double>::spmv_cuda(const Product<double>&, Stream) const;

}  // namespace spmvgpu
