#include "formats/ellpack_r.hpp"

#include "formats/ell_build.hpp"
#include "passes/host_passes.hpp"

namespace spmvgpu {

template <class T>
typename EllpackR<T>::Plan EllpackR<T>::plan(const CsrMatrix<T>& csr, const Tuning& tuning, const Target& target) {
    HostPasses passes;
    return Builder<EllpackR<T>, HostPasses>::plan_for(passes, csr, tuning, target);
}

template <class T>
EllpackR<T> EllpackR<T>::from_csr(const CsrMatrix<T>& csr, const Plan& plan) {
    HostPasses passes;
    return Builder<EllpackR<T>, HostPasses>::from_csr(passes, csr, plan);
}

template <class T>
void EllpackR<T>::spmv(const Product<T>& product) const {
    ell.slots.spmv(row_lengths.data(), product);
}

template <class T>
void EllpackR<T>::multiply_panel(const Product<T>& product) const {
    ell.slots.multiply_panel(row_lengths.data(), product);
}

#define INSTANTIATE(T) template struct EllpackR<T>;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)

}  // namespace spmvgpu
