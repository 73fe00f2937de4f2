// Products have no kernels of their own: the ELL part writes every row, then the COO part adds to them.
#include "formats/papers/hyb/layout.hpp"

namespace spmvgpu {

template <class T>
void Hyb<T>::spmv_cuda(const Product<T>& product, Stream stream) const {
    ell.spmv_cuda(product, stream);
    Product<T> rest = product;
    rest.beta = T(1);
    coo.spmv_cuda(rest, stream);
}

template <class T>
void Hyb<T>::multiply_columns_cuda(const Product<T>& product, Stream stream) const {
    ell.multiply_columns_cuda(product, stream);
    Product<T> rest = product;
    rest.beta = T(1);
    coo.multiply_columns_cuda(rest, stream);
}

#define INSTANTIATE(T)                                                \
    template void Hyb<T>::spmv_cuda(const Product<T>&, Stream) const; \
    template void Hyb<T>::multiply_columns_cuda(const Product<T>&, Stream) const;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
