// Several vectors in host memory, as the columns of one array.
#pragma once

#include <cstddef>

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

    bool vectors_are_contiguous() const { return row_stride == 1; }
    bool rows_are_contiguous() const { return column_stride == 1; }
};

// Columns that are processed at once where they must be copied: what a cache line of a row holds.
template <class T>
inline constexpr index_t kPanelColumns = 64 / sizeof(T);

// Calls group<kCount>(first) for groups of kColumns neighbouring columns, and then for ever smaller ones, that make up
// [first, end): as many as a loop of fixed length takes at once.
template <int kColumns, class Group>
inline void for_column_groups(index_t first, index_t end, const Group& group) {
    for (; end - first >= kColumns; first += kColumns) group.template operator()<kColumns>(first);
    if constexpr (kColumns > 1) for_column_groups<kColumns / 2>(first, end, group);
}

// Copies vectors of `length` entries, whatever the strides, by several threads.
template <class T>
void copy_columns(const Columns<const T>& from, const Columns<T>& to, index_t length);

// y = A * x for row-major x and y: row i of x begins at x + i * ldx.
template <class T>
struct PanelProduct {
    const T* x;
    T* y;
    index_t columns;
    std::ptrdiff_t ldx, ldy;
};

}  // namespace spmvgpu
