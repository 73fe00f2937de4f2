// Conversion of a caller's CSR arrays to arrays that may be trusted.
//
// The caller's arrays may be wrong, and other threads may change them meanwhile. They are copied first, and the copy is
// checked: in the worst case it is a matrix that the caller did not mean, never one with an index out of range.
#pragma once

#include <cstdint>
#include <string>

namespace spmvgpu {

// Copies row offsets. Throws std::invalid_argument, naming the values, unless the copies begin with 0, do not decrease
// and end with `entries`.
template <class In, class Out>
void copy_row_offsets(const In* from, std::int64_t rows, std::int64_t entries, Out* to);

// Copies the column indices of rows that `row_offsets`, checked before, describes. Throws std::invalid_argument unless
// the copies lie in 0..cols - 1; `axis` is what the message calls them, "column" or "row". Returns whether the indices
// of every row increase: it is sorted, and without duplicates.
template <class In, class Out>
bool copy_col_indices(const In* from, const Out* row_offsets, std::int64_t rows, std::int64_t cols,
                      const std::string& axis, Out* to);

// Sorts the entries of every row by column and adds up duplicates in the order in which they were stored. The result
// takes the front of the arrays. Returns the number of entries that are left.
template <class Index, class T>
std::int64_t sum_duplicates(std::int64_t rows, Index* row_offsets, Index* col_indices, T* values);

}  // namespace spmvgpu
