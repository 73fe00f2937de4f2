#include "formats/ellpack.hpp"

#include "formats/ell_build.hpp"
#include "passes/host_passes.hpp"

namespace spmvgpu {

template <class T>
typename Ellpack<T>::Plan Ellpack<T>::plan(const CsrMatrix<T>& csr, const Tuning& tuning, const Target& target) {
    HostPasses passes;
    return Builder<Ellpack<T>, HostPasses>::plan_for(passes, csr, tuning, target);
}

template <class T>
Ellpack<T> Ellpack<T>::from_csr(const CsrMatrix<T>& csr, const Plan& plan) {
    HostPasses passes;
    return Builder<Ellpack<T>, HostPasses>::from_csr(passes, csr, plan);
}

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

#define INSTANTIATE(T) template struct Ellpack<T>;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)

}  // namespace spmvgpu
