// Builds a format on a GPU: its Builder, with the passes of that GPU.
#pragma once

#include "formats/builder.hpp"
#include "gpu/cuda/passes.cuh"

namespace spmvgpu {

template <class F>
typename F::Plan plan_on_gpu(const CsrMatrix<typename F::value_type>& csr, const typename F::Tuning& tuning,
                             const Target& target) {
    gpu::CudaPasses passes(csr.row_offsets.device().ordinal);
    typename F::Plan plan = Builder<F, gpu::CudaPasses>::plan_for(passes, csr, tuning, target);
    passes.finish();
    return plan;
}

template <class F>
F build_on_gpu(const CsrMatrix<typename F::value_type>& csr, const typename F::Plan& plan) {
    gpu::CudaPasses passes(csr.row_offsets.device().ordinal);
    F format = Builder<F, gpu::CudaPasses>::from_csr(passes, csr, plan);
    passes.finish();
    return format;
}

template <class F>
Array<index_t> find_value_map_on_gpu(const F& format, int ordinal) {
    gpu::CudaPasses passes(ordinal);
    Array<index_t> map = Builder<F, gpu::CudaPasses>::find_value_map(passes, format);
    passes.finish();
    return map;
}

template <class F>
void store_values_on_gpu(F& format, const Array<index_t>& map, const Array<typename F::value_type>& values,
                         int ordinal) {
    using T = typename F::value_type;
    gpu::CudaPasses passes(ordinal);
    Array<T> uploaded;
    if (!values.device().is_gpu()) {
        uploaded = passes.template scratch<T>(values.size());
        passes.finish();  // the memory is there for copies on every stream
        copy_bytes(uploaded.data(), {ordinal}, values.data(), {}, values.bytes());
    }
    const Array<T>& there = values.device().is_gpu() ? values : uploaded;
    Builder<F, gpu::CudaPasses>::store_values(passes, format, map.data(), there.data());
    passes.finish();
}

}  // namespace spmvgpu

#define SPMVGPU_BUILD_ON_GPU(Format, T)                                                                            \
    template Format<T>::Plan plan_on_gpu<Format<T>>(const CsrMatrix<T>&, const Format<T>::Tuning&, const Target&); \
    template Format<T> build_on_gpu<Format<T>>(const CsrMatrix<T>&, const Format<T>::Plan&);

#define SPMVGPU_NEW_VALUES_ON_GPU(Format, T)                                         \
    template Array<index_t> find_value_map_on_gpu<Format<T>>(const Format<T>&, int); \
    template void store_values_on_gpu<Format<T>>(Format<T>&, const Array<index_t>&, const Array<T>&, int);
