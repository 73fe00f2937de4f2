#include "cuda/diagonals.cuh"
#include "formats/dia.hpp"

namespace spmvgpu {

template <class T>
void Dia<T>::spmv_cuda(const Product<T>& product, Stream stream) const {
    if (rows == 0) return;
    const cuda::Diagonals<T> matrix{.rows = rows,
                                    .before = 0,
                                    .cols = static_cast<unsigned>(cols),
                                    .stored = static_cast<unsigned>(diagonals()),
                                    .mirrored = 0,
                                    .pitch = pitch,
                                    .padding = padding,
                                    .mirror = Mirror<T>(false)};
    cuda::launch_diagonals<false>(matrix, offsets.data(), values.data(), product, tuning.block_size, stream);
}

#define INSTANTIATE(T) template void Dia<T>::spmv_cuda(const Product<T>&, Stream) const;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)

}  // namespace spmvgpu
