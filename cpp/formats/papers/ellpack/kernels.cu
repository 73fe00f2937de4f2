#include "formats/papers/ell/kernels.cuh"
#include "formats/papers/ellpack/layout.hpp"
#include "gpu/cuda/residency.cuh"
#include "gpu/residency.hpp"

namespace spmvgpu {

template <class T>
void Ellpack<T>::spmv_cuda(const Product<T>& product, Stream stream) const {
    gpu::launch_ell<1>(slots, nullptr, product, tuning.block_size, stream);
}

template <class T>
gpu::Residency gpu::ell_residency(int ordinal) {
    return residency(ell_threads_per_row<T, 1>, PaddedTuning{}.block_size, ordinal);
}

#define INSTANTIATE(T)                                  \
    template gpu::Residency gpu::ell_residency<T>(int); \
    template void Ellpack<T>::spmv_cuda(const Product<T>&, Stream) const;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
