#include "formats/columns.cuh"
#include "formats/stencil/rows.hpp"

namespace spmvgpu {

template <class T>
void Stencil<T>::multiply_columns_cuda(const Product<T>& product, Stream stream) const {
    gpu::launch_columns<1>(gpu::rows_of(*this), rows, 1, product, stream);
}

#define INSTANTIATE(T) template void Stencil<T>::multiply_columns_cuda(const Product<T>&, Stream) const;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
