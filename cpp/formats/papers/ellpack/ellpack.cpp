#include "formats/host_build.hpp"
#include "formats/papers/ell/build.hpp"
#include "formats/papers/ellpack/layout.hpp"

namespace spmvgpu {

SPMVGPU_BUILD_ON_HOST(Ellpack)

template <class T>
CsrMatrix<T> Ellpack<T>::to_csr() const {
    return slots.to_csr(cols, nnz);
}

template <class T>
void Ellpack<T>::spmv(const Product<T>& product) const {
    slots.spmv(nullptr, product);
}

template <class T>
void Ellpack<T>::multiply_panel(const Product<T>& product) const {
    slots.multiply_panel(nullptr, product);
}

#define INSTANTIATE(T)          \
    template struct Ellpack<T>; \
    SPMVGPU_NEW_VALUES_ON_HOST(Ellpack, T)
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
