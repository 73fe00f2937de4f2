// What plans and stores a format on the host: its Builder, with the passes of the CPU; gpu_build.cuh is the same for
// a GPU.
#pragma once

#include "core/passes/host_passes.hpp"
#include "formats/builder.hpp"

// Defines plan() and from_csr() of a format.
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
