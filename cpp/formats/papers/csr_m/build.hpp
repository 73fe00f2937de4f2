// How csr_m is built; see formats/builder.hpp. It is the matrix as it comes, so there is nothing to pass over.
#pragma once

#include "formats/builder.hpp"
#include "formats/papers/csr_m/layout.hpp"

namespace spmvgpu {

template <class T, class Passes>
struct Builder<CsrM<T>, Passes> {
    static CsrMPlan plan_for(Passes&, const CsrMatrix<T>& csr, const CsrMTuning& tuning, const Target& target) {
        return CsrM<T>::plan(csr, tuning, target);
    }
    static CsrM<T> from_csr(Passes&, const CsrMatrix<T>& csr, const CsrMPlan& plan) {
        return CsrM<T>::from_csr(csr, plan);
    }
};

}  // namespace spmvgpu
