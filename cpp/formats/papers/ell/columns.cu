#include "formats/columns.cuh"
#include "formats/papers/ell/rows.hpp"

namespace spmvgpu {

template <class T, class Kind>
void Ell<T, Kind>::multiply_columns_cuda(const Product<T>& product, Stream stream) const {
    gpu::launch_columns<1>(gpu::rows_of(*this), rows, slots.node_rows, product, stream);
}

#define INSTANTIATE(T)                                                                 \
    template void Ellpack<T>::multiply_columns_cuda(const Product<T>&, Stream) const;  \
    template void EllpackR<T>::multiply_columns_cuda(const Product<T>&, Stream) const; \
    template void EllrT<T>::multiply_columns_cuda(const Product<T>&, Stream) const;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
