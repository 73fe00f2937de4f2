// The basic types: index type, device, stream, and the product y = alpha*A*x + beta*y.
#pragma once

#include <cstdint>
#include <string>

#include "core/value_types.hpp"
#include "core/wide.hpp"

namespace spmvgpu {

// Rows, columns and positions of stored entries. A matrix with 2^31 or more stored entries is refused, never wrapped.
using index_t = std::int32_t;

// A stream of a GPU as an opaque handle, so that only gpu/cuda includes CUDA headers. nullptr is the default stream,
// and stands for the CPU, which has none.
using Stream = void*;

#ifdef SPMVGPU_CUDA
inline constexpr bool kHasCuda = true;
#else
inline constexpr bool kHasCuda = false;
#endif

struct Device {
    static constexpr int kCpu = -1;

    int ordinal = kCpu;  // number of a GPU, or kCpu

    constexpr Device(int number = kCpu) : ordinal(number) {}

    bool is_gpu() const { return ordinal != kCpu; }
    // Returns true if host memory must be copied to the device.
    bool has_own_memory() const { return is_gpu(); }
    // Returns true if a product returns once its work is queued on a stream, and not when it is done.
    bool queues_work() const { return is_gpu(); }
    std::string name() const { return is_gpu() ? "cuda:" + std::to_string(ordinal) : "cpu"; }
    bool operator==(const Device&) const = default;
};

// Properties of the device a format will run on, to which it may adapt itself while it is built.
struct Features;
struct Target {
    Device device;
    int processors = 1;                  // streaming multiprocessors of a GPU, threads of a CPU
    const Features* features = nullptr;  // features of the matrix, if they are known
};

// How several vectors lie in one array: entry i of vector j is `i * row + j * column` entries behind the first.
struct Strides {
    std::int64_t row = 1, column = 0;
};

// y = alpha * A * x + beta * y, for one vector x or for several, the columns of an array. With beta == 0, y is written
// and never read.
template <class T>
struct Product {
    const T* x;
    T* y;
    T alpha = T(1);
    T beta = T(0);
    void* scratch = nullptr;           // workspace_bytes() of the format, private to one CUDA stream, zeroed once
    const index_t* row_map = nullptr;  // row of y that a row of the matrix belongs to; null: the same
    index_t columns = 1;
    Strides x_strides{}, y_strides{};
    std::uint64_t policy = 0;    // cache policy for loads of the matrix on a GPU, see gpu/cuda/keeping.cuh
    Wide<T>* dots = nullptr;     // where a format that SumsDots leaves pairs of x.y and y.Wy; null: they are not wanted
    const T* weights = nullptr;  // the diagonal W of these products; null: ones
    const T* x_of_rows = nullptr;  // the elements of x with the numbers of the rows, for these products

    constexpr index_t row_of_y(index_t row) const { return row_map == nullptr ? row : row_map[row]; }

    // Returns true if x and y are one contiguous vector each.
    bool is_of_vectors() const { return columns == 1 && vectors_are_contiguous(); }
    bool vectors_are_contiguous() const { return x_strides.row == 1 && y_strides.row == 1; }
    bool rows_are_contiguous() const { return x_strides.column == 1 && y_strides.column == 1; }

    Product part(index_t first, index_t count) const {
        Product product = *this;
        product.x += first * x_strides.column;
        product.y += first * y_strides.column;
        product.columns = count;
        return product;
    }
    // The product with the part of the matrix that begins at this row and column.
    Product from(index_t row, index_t col) const {
        Product product = *this;
        product.x += col * x_strides.row;
        if (dots != nullptr) product.x_of_rows += row;
        if (weights != nullptr) product.weights += row;
        if (row_map != nullptr) {
            product.row_map += row;
        } else {
            product.y += row * y_strides.row;
        }
        return product;
    }
};

// The inner products that a product has left at Product::dots, in this number of pairs, which lack some rows.
struct DotsLeft {
    struct Rows {
        index_t begin = 0, end = 0;
    };
    index_t pairs = 0;
    Rows missing[2] = {};
};

}  // namespace spmvgpu
