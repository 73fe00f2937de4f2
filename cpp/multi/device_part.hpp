// A part of a multi-device matrix: some of its rows, on one of the devices.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "core/array.hpp"
#include "formats/format.hpp"
#include "matrix/any_matrix.hpp"
#include "matrix/index_map.hpp"

namespace spmvgpu {

template <class T>
struct DevicePart {
    std::shared_ptr<const AnyMatrix<T>> matrix;  // with all columns
    IndexMap rows;                               // in the whole; a map is in host memory
    index_t col_begin = 0, col_end = 0;          // the part of x that it reads
    // The first interior_parts parts of a PartedMatrix read only elements of x with the numbers of the part's rows.
    std::size_t interior_parts = 0;

    Device device() const { return matrix->device(); }
    std::size_t row_count() const { return matrix->rows(); }
    std::size_t window() const { return col_end - col_begin; }
};

// The vector whose elements from `first` on are in `window`. Only those may be read.
template <class T>
const T* as_whole(const T* window, index_t first) {
    return reinterpret_cast<const T*>(reinterpret_cast<std::uintptr_t>(window) - first * sizeof(T));
}

// The product of a part on the CPU with the whole x and y. If operands are checked it has no more of x than a GPU would
// get, so that AddressSanitizer detects reads beyond that.
template <class T>
void multiply_on_cpu(const DevicePart<T>& part, Product<T> product) {
    Array<T> window;
    if constexpr (kChecksOperands) {
        window = Array<T>(part.window());
        std::copy_n(product.x + part.col_begin, part.window(), window.begin());
        product.x = as_whole(window.data(), part.col_begin);
    }
    if (part.rows.scattered()) {
        product.row_map = part.rows.indices.data();
    } else {
        product.y += part.rows.first;
    }
    part.matrix->spmv(product, nullptr);
}

}  // namespace spmvgpu
