// Whether half of a matrix stands for all of it, as passes over the matrix on any device; see symmetry.hpp and
// builder.hpp.
#pragma once

#include <string>

#include "core/csr_matrix.hpp"
#include "formats/symmetry.hpp"
#include "passes/passes.hpp"

namespace spmvgpu {

// Neighbouring rows with entries in the same columns, taken together as nodes of a few: they are compared with their
// mirror images by the block. Without any, each row is one.
struct NodeRows {
    const index_t* first_rows = nullptr;    // of each node, and the end
    const index_t* nodes_before = nullptr;  // nodes that begin before each row

    constexpr bool is_first(index_t row) const {
        return nodes_before == nullptr || nodes_before[row] != nodes_before[row + 1];
    }
    // Behind the last row of the node.
    constexpr index_t end_of(index_t row) const {
        return nodes_before == nullptr ? row + 1 : first_rows[nodes_before[row + 1]];
    }
};

namespace symmetry_passes {

// Whether the mirror image of entry k, in this row, is stored and is as it should be.
template <class T>
constexpr bool has_mirror(const index_t* row_offsets, const index_t* cols, const T* values, index_t row, index_t k,
                          bool hermitian) {
    const index_t col = cols[k], end = row_offsets[col + 1];
    const std::int64_t mirror = first_not_below(cols, row_offsets[col], end, row);
    return mirror < end && cols[mirror] == row && are_mirrored(values[k], values[mirror], hermitian);
}

// Whether the mirror images of a block are stored and are as they should be: of the entry k of this row, the first one
// of a node, and of those that follow in the columns of its column's node and in the rows of its own.
template <class T>
constexpr bool block_has_mirror(const index_t* row_offsets, const index_t* cols, const T* values, const NodeRows& nodes,
                                index_t row, index_t k, bool hermitian) {
    const index_t begin = row_offsets[row], length = row_offsets[row + 1] - begin, rows = nodes.end_of(row) - row;
    const index_t col = cols[k], col_end = nodes.end_of(col);
    const index_t there = row_offsets[col], length_there = row_offsets[col + 1] - there;
    const auto mirror = static_cast<index_t>(first_not_below(cols, there, there + length_there, row));
    for (index_t j = 0; j < rows; ++j) {
        if (mirror + j >= there + length_there || cols[mirror + j] != row + j) return false;
    }
    for (index_t i = 0; col + i < col_end && k + i < begin + length && cols[k + i] == col + i; ++i) {
        for (index_t j = 0; j < rows; ++j) {
            if (!are_mirrored(values[k + i + j * length], values[mirror + j + i * length_there], hermitian))
                return false;
        }
    }
    return true;
}

// Whether all entries on and below the diagonal have mirror images, which they have above it as many of.
template <class T, class Passes>
bool holds(Passes& passes, const CsrMatrix<T>& csr, const NodeRows& nodes, bool hermitian) {
    const index_t *const row_offsets = csr.row_offsets.data(), *const cols = csr.col_indices.data();
    const T* const values = csr.values.data();
    const auto surplus = passes.template reduce<std::int64_t>(
        csr.rows, SPMVGPU_BODY(std::int64_t row) {
            const std::int64_t begin = row_offsets[row], end = row_offsets[row + 1];
            return (end - first_above(cols, begin, end, row)) - (first_not_below(cols, begin, end, row) - begin);
        });
    if (surplus != 0) return false;
    Array<Mark> found = passes.template scratch<Mark>(1);
    Mark* const is_found = found.data();
    passes.fill(is_found, 1, Mark(0));
    passes.each_entry(
        csr.rows, row_offsets, csr.nnz, SPMVGPU_BODY(index_t row, index_t k) {
            if (!nodes.is_first(row) || cols[k] >= nodes.end_of(row)) return;
            const bool follows = k > row_offsets[row] && cols[k - 1] == cols[k] - 1 && !nodes.is_first(cols[k]);
            if (follows || is_marked(is_found)) return;
            if (!block_has_mirror(row_offsets, cols, values, nodes, row, k, hermitian)) set_mark(is_found);
        });
    return passes.read(is_found) == 0;
}

// The first entry without its mirror image, of which there is one. Near the front in most matrices: stretches of
// entries are looked at, each longer than the one before.
template <class T, class Passes>
std::int64_t first_without_mirror(Passes& passes, const CsrMatrix<T>& csr, bool hermitian) {
    const index_t *const row_offsets = csr.row_offsets.data(), *const cols = csr.col_indices.data();
    const T* const values = csr.values.data();
    const index_t rows = csr.rows;
    constexpr std::int64_t kFirst = 1 << 16, kTimes = 8;
    for (std::int64_t begin = 0, length = kFirst; begin < csr.nnz; begin += length, length *= kTimes) {
        const std::int64_t end = begin + length < csr.nnz ? begin + length : csr.nnz;
        const auto from_end = largest<std::int64_t>(
            passes, end - begin, SPMVGPU_BODY(std::int64_t i) {
                const auto k = static_cast<index_t>(begin + i);
                const bool mirrored =
                    has_mirror(row_offsets, cols, values, row_of_entry(row_offsets, rows, k), k, hermitian);
                return mirrored ? std::int64_t(0) : end - k;
            });
        if (from_end > 0) return end - from_end;
    }
    return csr.nnz;
}

template <class T, class Passes>
std::string describe(Passes& passes, const CsrMatrix<T>& csr, std::int64_t k, bool hermitian) {
    const index_t *const row_offsets = csr.row_offsets.data(), *const cols = csr.col_indices.data();
    const index_t rows = csr.rows;
    // row, column, and where the mirror image is, or -1
    Array<index_t> found = passes.template scratch<index_t>(3);
    index_t* const to = found.data();
    passes.each(
        1, SPMVGPU_BODY(std::int64_t) {
            const auto entry = static_cast<index_t>(k);
            const index_t row = row_of_entry(row_offsets, rows, entry), col = cols[entry];
            const index_t end = row_offsets[col + 1];
            const std::int64_t mirror = first_not_below(cols, row_offsets[col], end, row);
            to[0] = row;
            to[1] = col;
            to[2] = mirror < end && cols[mirror] == row ? static_cast<index_t>(mirror) : -1;
        });
    const index_t mirror = passes.read(to + 2);
    const T here = passes.read(csr.values.data() + k),
            there = mirror < 0 ? T(0) : passes.read(csr.values.data() + mirror);
    return describe_asymmetry(passes.read(to), passes.read(to + 1), here, mirror < 0 ? nullptr : &there, hermitian);
}

template <class T>
[[noreturn]] void refuse(const std::string& format, const CsrMatrix<T>& csr, Symmetry asked, const std::string& why) {
    if (!kIsComplex<T> && asked == Symmetry::kAuto) asked = Symmetry::kSymmetric;
    refuse_unsymmetric(format, csr.rows, csr.cols, csr.bytes(), asked, why);
}

}  // namespace symmetry_passes

// Throws FormatError, in the name of a format that needs it, unless the matrix is square.
template <class T>
void check_square(const std::string& format, const CsrMatrix<T>& csr, Symmetry asked) {
    if (csr.rows != csr.cols) symmetry_passes::refuse(format, csr, asked, "");
}

// The symmetry of a square matrix, of a real one that which is asked for, as both are the same. Throws FormatError, in
// the name of a format that needs it, unless the matrix stores with every entry (i, j) an entry (j, i) that is as
// `asked`. "The same" is to the last bit, so that half of the matrix gives the other half back; of a conjugate, but for
// the sign of a zero imaginary part. Names the first entry, in row order, of which that is not so.
template <class T, class Passes>
Symmetry find_symmetry(Passes& passes, const std::string& format, const CsrMatrix<T>& csr, Symmetry asked,
                       const NodeRows& nodes = {}) {
    using namespace symmetry_passes;
    if (!kIsComplex<T> && asked == Symmetry::kAuto) asked = Symmetry::kSymmetric;
    // Of one that may be either, the message says what is in the way of that which it nearly is.
    std::int64_t first = -1;
    bool hermitian_is_nearer = false;
    for (const bool hermitian : {false, true}) {
        if (asked == (hermitian ? Symmetry::kSymmetric : Symmetry::kHermitian)) continue;
        if (holds(passes, csr, nodes, hermitian)) return hermitian ? Symmetry::kHermitian : Symmetry::kSymmetric;
        const std::int64_t k = first_without_mirror(passes, csr, hermitian);
        if (k > first) {
            first = k;
            hermitian_is_nearer = hermitian;
        }
    }
    refuse(format, csr, asked, describe(passes, csr, first, hermitian_is_nearer));
}

}  // namespace spmvgpu
