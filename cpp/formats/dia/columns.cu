#include "formats/dia/diagonals_columns.cuh"

namespace spmvgpu {

template <class T>
void Dia<T>::multiply_columns_cuda(const Product<T>& product, Stream stream) const {
    gpu::launch_diagonals_columns(gpu::rows_of(*this), rows, product, stream);
}

#define INSTANTIATE(T) template void Dia<T>::multiply_columns_cuda(const Product<T>&, Stream) const;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
