// How csr_m is built; see builder.hpp. It is the matrix as it comes, so there is nothing to pass over.
#pragma once

#include "formats/builder.hpp"
#include "formats/csr_m.hpp"

namespace spmvgpu {

template <class T>
struct Builder<CsrM<T>> {
    template <class Passes>
    static CsrMPlan plan(Passes&, const CsrMatrix<T>& csr, const CsrMTuning& tuning, const Target& target) {
        return CsrM<T>::plan(csr, tuning, target);
    }
    template <class Passes>
    static CsrM<T> from_csr(Passes&, const CsrMatrix<T>& csr, const CsrMPlan& plan) {
        return CsrM<T>::from_csr(csr, plan);
    }
};

}  // namespace spmvgpu
