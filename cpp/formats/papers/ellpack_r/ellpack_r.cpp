#include "formats/host_build.hpp"
#include "formats/papers/ell/build.hpp"
#include "formats/papers/ellpack_r/layout.hpp"

namespace spmvgpu {

SPMVGPU_BUILD_ON_HOST(EllpackR)

template <class T>
void EllpackR<T>::spmv(const Product<T>& product) const {
    ell.slots.spmv(row_lengths.data(), product);
}

template <class T>
void EllpackR<T>::multiply_panel(const Product<T>& product) const {
    ell.slots.multiply_panel(row_lengths.data(), product);
}

#define INSTANTIATE(T)           \
    template struct EllpackR<T>; \
    SPMVGPU_NEW_VALUES_ON_HOST(EllpackR, T)
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
