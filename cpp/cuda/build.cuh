// What builds a format on a GPU: its Builder, with the passes of that GPU.
#pragma once

#include "cuda/passes.cuh"
#include "formats/builder.hpp"

namespace spmvgpu {

template <class F>
typename F::Plan plan_on_gpu(const CsrMatrix<typename F::value_type>& csr, const typename F::Tuning& tuning,
                             const Target& target) {
    cuda::CudaPasses passes(csr.row_offsets.device().ordinal);
    typename F::Plan plan = Builder<F, cuda::CudaPasses>::plan_for(passes, csr, tuning, target);
    passes.finish();
    return plan;
}

template <class F>
F build_on_gpu(const CsrMatrix<typename F::value_type>& csr, const typename F::Plan& plan) {
    cuda::CudaPasses passes(csr.row_offsets.device().ordinal);
    F format = Builder<F, cuda::CudaPasses>::from_csr(passes, csr, plan);
    passes.finish();
    return format;
}

}  // namespace spmvgpu

// Compiles both for a format of all value types.
#define SPMVGPU_BUILD_ON_GPU(Format, T)                                                                            \
    template Format<T>::Plan plan_on_gpu<Format<T>>(const CsrMatrix<T>&, const Format<T>::Tuning&, const Target&); \
    template Format<T> build_on_gpu<Format<T>>(const CsrMatrix<T>&, const Format<T>::Plan&);
