// No kernels of its own: the product of the ELL part, which writes every row, then that of the COO part, which adds.
#include "formats/hyb.hpp"

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

template void Hyb<float>::spmv_cuda(const Product<float>&, Stream) const;
template void Hyb<double>::spmv_cuda(const Product<double>&, Stream) const;
template void Hyb<float>::multiply_columns_cuda(const Product<float>&, Stream) const;
template void Hyb<double>::multiply_columns_cuda(const Product<double>&, Stream) const;

}  // namespace spmvgpu
