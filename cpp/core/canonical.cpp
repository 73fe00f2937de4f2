#include "core/canonical.hpp"

#include <algorithm>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "core/array.hpp"
#include "core/interrupt.hpp"
#include "core/parallel.hpp"

namespace spmvgpu {

namespace {

// Entries that are copied, and then looked at again, while they are in the nearest cache.
constexpr std::int64_t kBlockEntries = 4096;

template <class Out>
struct Findings {
    using Count = std::make_unsigned_t<Out>;

    Count largest = 0;    // index of all; negative ones count as larger than any other
    bool is_cut = false;  // an index changed when it was narrowed
    Count descents = 0;   // indices that are not larger than the one before in their row

    bool outside(std::int64_t cols, std::int64_t entries) const {
        return is_cut || (entries > 0 && static_cast<std::uint64_t>(largest) >= static_cast<std::uint64_t>(cols));
    }

    void merge(const Findings& other) {
        largest = std::max(largest, other.largest);
        is_cut = is_cut || other.is_cut;
        descents += other.descents;
    }
};

// Copies indices [begin, end), as if they were one row. Without branches and in the width of the copy, so that it is
// vectorised.
template <class In, class Out>
SPMVGPU_SIMD_CLONES Findings<Out> copy_block(const In* from, std::int64_t begin, std::int64_t end, Out* to) {
    using Count = typename Findings<Out>::Count;
    Count largest = 0, descents = 0;
    In lost = 0;
    for (std::int64_t k = begin; k < end; ++k) {
        const In index = from[k];
        to[k] = static_cast<Out>(index);
        lost |= static_cast<In>(to[k]) ^ index;
        largest = std::max(largest, static_cast<Count>(to[k]));  // the copy is checked, not the original
    }
    for (std::int64_t k = begin + 1; k < end; ++k) descents += to[k] <= to[k - 1];
    return {largest, lost != 0, descents};
}

// The first row of part p of rows with about equally many entries.
template <class Out>
std::int64_t first_row(const Out* row_offsets, std::int64_t rows, std::int64_t parts, std::int64_t p) {
    if (p == parts) return rows;
    const std::int64_t entry = part_begin(row_offsets[rows], parts, p);
    return std::lower_bound(row_offsets, row_offsets + rows, entry) - row_offsets;
}

// Copies the indices of rows [begin, end), in blocks of whole rows.
template <class In, class Out>
Findings<Out> copy_rows(const In* from, const Out* row_offsets, std::int64_t begin, std::int64_t end, Out* to) {
    Findings<Out> all;
    for (std::int64_t row = begin, next = begin; row < end; row = next) {
        const std::int64_t first = row_offsets[row];
        while (next < end && (next == row || row_offsets[next + 1] - first <= kBlockEntries)) ++next;
        all.merge(copy_block(from, first, std::int64_t(row_offsets[next]), to));
        for (std::int64_t r = row + 1; r < next; ++r) {  // from one row to another an index may descend
            const std::int64_t k = row_offsets[r];
            if (k > first && k < row_offsets[r + 1]) all.descents -= to[k] <= to[k - 1];
        }
    }
    return all;
}

template <class In>
[[noreturn]] void refuse_indices(const In* from, std::int64_t entries, std::int64_t cols, const std::string& axis) {
    const auto [low, high] = std::minmax_element(from, from + entries);
    throw std::invalid_argument(axis + " indices must lie in 0.." + std::to_string(cols - 1) + "; these reach from " +
                                std::to_string(*low) + " to " + std::to_string(*high));
}

template <class Index, class T>
struct Entry {
    Index col;
    Index position;  // position in the caller's row
    T value;
};

template <class Index>
bool increases(const Index* begin, const Index* end) {
    return std::adjacent_find(begin, end, [](Index a, Index b) { return a >= b; }) == end;
}

// Sorts one row and adds up its duplicates; returns the entries that are left.
template <class Index, class T>
std::int64_t clean_row(Index* cols, T* values, std::int64_t length, Entry<Index, T>* scratch) {
    if (increases(cols, cols + length)) return length;
    for (std::int64_t k = 0; k < length; ++k) scratch[k] = {cols[k], static_cast<Index>(k), values[k]};
    std::sort(scratch, scratch + length,
              [](const auto& a, const auto& b) { return a.col != b.col ? a.col < b.col : a.position < b.position; });
    std::int64_t left = 0;
    for (std::int64_t k = 0; k < length; ++k) {
        if (left > 0 && cols[left - 1] == scratch[k].col) {
            values[left - 1] += scratch[k].value;
        } else {
            cols[left] = scratch[k].col;
            values[left++] = scratch[k].value;
        }
    }
    return left;
}

template <class Index>
std::int64_t longest_row(const Index* row_offsets, std::int64_t begin, std::int64_t end) {
    std::int64_t longest = 0;
    for (std::int64_t row = begin; row < end; ++row)
        longest = std::max<std::int64_t>(longest, row_offsets[row + 1] - row_offsets[row]);
    return longest;
}

}  // namespace

template <class In, class Out>
void copy_row_offsets(const In* from, std::int64_t rows, std::int64_t entries, Out* to) {
    std::int64_t wrong = 0;
    for (std::int64_t row = 0; row <= rows; ++row) {
        const In offset = from[row];
        to[row] = static_cast<Out>(offset);
        wrong += static_cast<In>(to[row]) != offset;
    }
    for (std::int64_t row = 0; row < rows; ++row) wrong += to[row + 1] < to[row];
    if (wrong == 0 && to[0] == 0 && to[rows] == entries) return;
    if (from[0] != 0) throw std::invalid_argument("indptr must begin with 0, not " + std::to_string(from[0]));
    for (std::int64_t row = 0; row < rows; ++row) {
        if (from[row + 1] < from[row]) {
            throw std::invalid_argument("indptr must not decrease; it goes from " + std::to_string(from[row]) + " to " +
                                        std::to_string(from[row + 1]) + " at row " + std::to_string(row));
        }
    }
    throw std::invalid_argument("mismatched lengths: data and indices have " + std::to_string(entries) +
                                " entries, and indptr ends with " + std::to_string(from[rows]));
}

template <class In, class Out>
bool copy_col_indices(const In* from, const Out* row_offsets, std::int64_t rows, std::int64_t cols,
                      const std::string& axis, Out* to) {
    const std::int64_t entries = row_offsets[rows];
    const std::int64_t pieces = piece_count(entries);
    std::vector<Findings<Out>> found(pieces);
    for_each_piece(pieces, [&](std::int64_t p) {
        found[p] = copy_rows(from, row_offsets, first_row(row_offsets, rows, pieces, p),
                             first_row(row_offsets, rows, pieces, p + 1), to);
    });
    Findings<Out> all;
    for (const auto& part : found) all.merge(part);
    if (all.outside(cols, entries)) refuse_indices(from, entries, cols, axis);
    return all.descents == 0;
}

template <class Index, class T>
std::int64_t sum_duplicates(std::int64_t rows, Index* row_offsets, Index* col_indices, T* values) {
    const std::int64_t pieces = piece_count(8 * static_cast<std::int64_t>(row_offsets[rows]));
    Array<Index> left(rows);
    for_each_piece(pieces, [&](std::int64_t p) {
        const std::int64_t first = first_row(row_offsets, rows, pieces, p);
        const std::int64_t last = first_row(row_offsets, rows, pieces, p + 1);
        Array<Entry<Index, T>> scratch(longest_row(row_offsets, first, last));
        for (std::int64_t row = first; row < last; ++row) {
            const std::int64_t begin = row_offsets[row], length = row_offsets[row + 1] - begin;
            left[row] = static_cast<Index>(clean_row(col_indices + begin, values + begin, length, scratch.data()));
        }
    });
    std::int64_t written = 0, begin = 0;
    InterruptTimer timer;
    for (std::int64_t row = 0; row < rows; ++row) {
        const std::int64_t next = row_offsets[row + 1];
        timer.work(left[row] + 1);
        if (written != begin) {
            std::copy_n(col_indices + begin, left[row], col_indices + written);
            std::copy_n(values + begin, left[row], values + written);
        }
        written += left[row];
        begin = next;
        row_offsets[row + 1] = static_cast<Index>(written);
    }
    return written;
}

#define SPMVGPU_INSTANTIATE(In, Out)                                             \
    template void copy_row_offsets(const In*, std::int64_t, std::int64_t, Out*); \
    template bool copy_col_indices(const In*, const Out*, std::int64_t, std::int64_t, const std::string&, Out*);
SPMVGPU_INSTANTIATE(std::int32_t, std::int32_t)
SPMVGPU_INSTANTIATE(std::int64_t, std::int32_t)
SPMVGPU_INSTANTIATE(std::int64_t, std::int64_t)
#undef SPMVGPU_INSTANTIATE

#define INSTANTIATE(T)                                                                    \
    template std::int64_t sum_duplicates(std::int64_t, std::int32_t*, std::int32_t*, T*); \
    template std::int64_t sum_duplicates(std::int64_t, std::int64_t*, std::int64_t*, T*);
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
