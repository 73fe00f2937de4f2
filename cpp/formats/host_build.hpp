// Plans and stores a format on the host: its Builder, with the passes of the CPU; gpu_build.cuh does this for a GPU.
#pragma once

#include "core/passes/host_passes.hpp"
#include "formats/builder.hpp"

namespace spmvgpu {

template <class F>
Array<index_t> find_value_map_on_host(const F& format) {
    HostPasses passes;
    return Builder<F, HostPasses>::find_value_map(passes, format);
}

template <class F>
void store_values_on_host(F& format, const Array<index_t>& map, const Array<typename F::value_type>& values) {
    HostPasses passes;
    Builder<F, HostPasses>::store_values(passes, format, map.data(), values.data());
}

}  // namespace spmvgpu

#define SPMVGPU_BUILD_ON_HOST(Format)                                                                               \
    template <class T>                                                                                              \
    typename Format<T>::Plan Format<T>::plan(const CsrMatrix<T>& csr, const Tuning& tuning, const Target& target) { \
        HostPasses passes;                                                                                          \
        return Builder<Format<T>, HostPasses>::plan_for(passes, csr, tuning, target);                               \
    }                                                                                                               \
    template <class T>                                                                                              \
    Format<T> Format<T>::from_csr(const CsrMatrix<T>& csr, const Plan& plan) {                                      \
        HostPasses passes;                                                                                          \
        return Builder<Format<T>, HostPasses>::from_csr(passes, csr, plan);                                         \
    }

#define SPMVGPU_NEW_VALUES_ON_HOST(Format, T)                                    \
    template Array<index_t> find_value_map_on_host<Format<T>>(const Format<T>&); \
    template void store_values_on_host<Format<T>>(Format<T>&, const Array<index_t>&, const Array<T>&);
