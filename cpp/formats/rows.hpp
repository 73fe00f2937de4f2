// The rows of a format, as read by kernels that serve all formats with rows: products with several columns, and the
// solver that stays on the device. formats/<f>/rows.hpp defines for format F
//     Rows rows_of(const F&)
// and the type Rows, with these functions:
//     Row row(index_t r)           the r-th row in stored order
//     index_t number(index_t r)    its number in the matrix
//     load(row, k, col, value)     its entry k; column -1 marks padding, which is skipped
// If rows may be stored out of their order, Rows has a pointer `permutation`, which is null if they are in order.
//
// Only kernels call these functions, but all.hpp lists them for every compiler.
#pragma once

#include <cstdint>

#include "core/types.hpp"

#ifdef __CUDACC__
#define SPMVGPU_ON_DEVICE __device__ __forceinline__
#else
#define SPMVGPU_ON_DEVICE
#endif

namespace spmvgpu::gpu {

struct Row {
    std::int64_t begin = 0;
    unsigned count = 0;  // entries, padding included
};

// Defined in gpu/cuda/warp.cuh for whole values.
template <class T>
SPMVGPU_ON_DEVICE T load(const T* pointer);
template <class Real>
SPMVGPU_ON_DEVICE Complex<Real> load(const Complex<Real>* pointer);

}  // namespace spmvgpu::gpu
