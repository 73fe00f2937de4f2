// Several vectors in host memory, as the columns of one array.
#pragma once

#include <cstddef>
#include <stdexcept>

#include "core/types.hpp"

namespace spmvgpu {

// Entry i of vector j is data[i * row_stride + j * column_stride].
template <class T>
struct Columns {
    T* data;
    index_t count;
    std::ptrdiff_t row_stride, column_stride;

    T* column(index_t j) const { return data + j * column_stride; }
    Columns part(index_t first, index_t width) const { return {column(first), width, row_stride, column_stride}; }

    // Without gaps in memory of their own: row by row, or one vector after the other.
    static Columns packed(T* data, index_t length, index_t count, bool by_rows) {
        return by_rows ? Columns{data, count, count, 1} : Columns{data, count, 1, length};
    }

    Columns<const T> read_only() const { return {data, count, row_stride, column_stride}; }
};

template <class T>
Columns<const T> columns_of_x(const Product<T>& product) {
    return {product.x, product.columns, product.x_strides.row, product.x_strides.column};
}
template <class T>
Columns<T> columns_of_y(const Product<T>& product) {
    return {product.y, product.columns, product.y_strides.row, product.y_strides.column};
}

template <class T>
void set_x(Product<T>& product, const Columns<const T>& x) {
    product.x = x.data;
    product.x_strides = {x.row_stride, x.column_stride};
}
template <class T>
void set_y(Product<T>& product, const Columns<T>& y) {
    product.y = y.data;
    product.y_strides = {y.row_stride, y.column_stride};
}

// Calls multiply(product) for one vector after the other, each of which must be contiguous.
template <class T, class Multiply>
void for_each_vector(const Product<T>& product, Multiply&& multiply) {
    if (!product.vectors_are_contiguous()) throw std::logic_error("vectors must be contiguous to be multiplied singly");
    for (index_t j = 0; j < product.columns; ++j) multiply(product.part(j, 1));
}

// Columns that are processed at once where they must be copied: what a cache line of a row holds.
template <class T>
inline constexpr index_t kPanelColumns = 64 / sizeof(T);

// Columns for which a GPU reads a matrix once.
inline constexpr index_t kMaxColumns = 32;

// Returns how many columns the next block has. A single column is never left over, for a product with one vector adds
// up in another order than one with several. `most` is at least 3, or 1.
constexpr index_t next_columns(index_t left, index_t most) {
    if (left <= most) return left;
    return left == most + 1 && most > 1 ? most - 1 : most;
}

// Calls group<kCount>(first) for groups of kColumns neighbouring columns, and then for smaller and smaller ones, that
// make up [first, end). Each group is a loop of fixed length.
template <int kColumns, class Group>
inline void for_column_groups(index_t first, index_t end, const Group& group) {
    for (; end - first >= kColumns; first += kColumns) group.template operator()<kColumns>(first);
    if constexpr (kColumns > 1) for_column_groups<kColumns / 2>(first, end, group);
}

// to = alpha * from + beta * to for vectors of `length` entries, whatever the strides, by several threads. With
// beta == 0, `to` is not read.
template <class T>
void copy_columns(const Columns<const T>& from, const Columns<T>& to, index_t length, T alpha = T(1), T beta = T(0));

}  // namespace spmvgpu
