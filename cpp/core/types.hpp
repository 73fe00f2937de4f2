// The few words every other file uses: index type, device, stream, and the product y = alpha*A*x + beta*y.
#pragma once

#include <cstdint>
#include <string>

#include "core/value_types.hpp"

namespace spmvgpu {

// Rows, columns and positions of stored entries. A matrix with 2^31 or more stored entries is refused, never wrapped.
using index_t = std::int32_t;

// A cudaStream_t as an opaque handle, so that only cpp/cuda includes CUDA headers. nullptr is the default stream.
using Stream = void*;

#ifdef SPMVGPU_CUDA
inline constexpr bool kHasCuda = true;
#else
inline constexpr bool kHasCuda = false;
#endif

struct Device {
    static constexpr int kCpu = -1;

    int ordinal = kCpu;  // CUDA device number, or kCpu

    bool is_cuda() const { return ordinal != kCpu; }
    std::string name() const { return is_cuda() ? "cuda:" + std::to_string(ordinal) : "cpu"; }
    bool operator==(const Device&) const = default;
};

// What a format may adapt itself to while it is built: the device it will run on.
struct Target {
    Device device;
    int processors = 1;  // streaming multiprocessors of a GPU, threads of a CPU
};

// y = alpha * A * x + beta * y. With beta == 0, y is written and never read.
template <class T>
struct Product {
    const T* x;
    T* y;
    T alpha = T(1);
    T beta = T(0);
    void* scratch = nullptr;           // workspace_bytes() of the format, private to one CUDA stream, zeroed once
    const index_t* row_map = nullptr;  // row of y that a row of the matrix belongs to; null: the same

    constexpr index_t row_of_y(index_t row) const { return row_map == nullptr ? row : row_map[row]; }
};

}  // namespace spmvgpu
