// Builder<F, Passes>: how a format is planned and stored, as passes over a matrix on any device; see passes/passes.hpp.
// Each <f>_build.hpp specialises it for all passes, with
//     static Plan plan_for(Passes&, const CsrMatrix<T>&, const Tuning&, const Target&);
//     static F from_csr(Passes&, const CsrMatrix<T>&, const Plan&);
// The matrix, the arrays of the plan and those of the result are where the passes are. What runs on the host says so:
// a plan is for its target, wherever it is made.
#pragma once

#include "formats/format.hpp"
#include "passes/passes.hpp"

namespace spmvgpu {

template <class F, class Passes>
struct Builder;

// The same on the GPU that holds the matrix, which is done when they return. Defined in cuda/<f>_build.cu, for the
// formats of which Traits::builds_on_gpu is true.
template <class F>
typename F::Plan plan_on_gpu(const CsrMatrix<typename F::value_type>& csr, const typename F::Tuning& tuning,
                             const Target& target);
template <class F>
F build_on_gpu(const CsrMatrix<typename F::value_type>& csr, const typename F::Plan& plan);

}  // namespace spmvgpu
