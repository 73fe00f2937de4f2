#include "core/dispatch.hpp"
#include "formats/papers/ell/kernels.cuh"
#include "formats/papers/ellr_t/layout.hpp"

namespace spmvgpu {

template <class T>
void EllrT<T>::spmv_cuda(const Product<T>& product, Stream stream) const {
    dispatch<1, 2, 4, 8, 16, 32>("threads_per_row", tuning.threads_per_row, [&]<int kThreads>() {
        gpu::launch_ell<kThreads>(slots, row_lengths.data(), product, tuning.padded.block_size, stream);
    });
}

#define INSTANTIATE(T) template void EllrT<T>::spmv_cuda(const Product<T>&, Stream) const;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
