// Whether half of a matrix stands for all of it, as passes over the matrix on any device; see symmetry.hpp and
// builder.hpp.
#pragma once

#include <string>

#include "core/csr_matrix.hpp"
#include "formats/symmetry.hpp"
#include "passes/passes.hpp"

namespace spmvgpu {

namespace symmetry_passes {

// Whether the mirror image of entry k, in this row, is stored and is as it should be.
template <class T>
constexpr bool has_mirror(const index_t* row_offsets, const index_t* cols, const T* values, index_t row, index_t k,
                          bool hermitian) {
    const index_t col = cols[k], end = row_offsets[col + 1];
    const std::int64_t mirror = first_not_below(cols, row_offsets[col], end, row);
    return mirror < end && cols[mirror] == row && are_mirrored(values[k], values[mirror], hermitian);
}

// How many more entries there are above the diagonal than below it.
template <class T, class Passes>
std::int64_t count_surplus(Passes& passes, const CsrMatrix<T>& csr) {
    const index_t *const row_offsets = csr.row_offsets.data(), *const cols = csr.col_indices.data();
    return passes.template reduce<std::int64_t>(
        csr.rows, SPMVGPU_BODY(std::int64_t row) {
            const std::int64_t begin = row_offsets[row], end = row_offsets[row + 1];
            return (end - first_above(cols, begin, end, row)) - (first_not_below(cols, begin, end, row) - begin);
        });
}

// Whether all entries on and below the diagonal have mirror images, which they have above it as many of.
template <class T, class Passes>
bool holds(Passes& passes, const CsrMatrix<T>& csr, bool hermitian) {
    if (count_surplus(passes, csr) != 0) return false;
    const index_t *const row_offsets = csr.row_offsets.data(), *const cols = csr.col_indices.data();
    const T* const values = csr.values.data();
    return !any_entry(
        passes, csr.rows, row_offsets, csr.nnz, SPMVGPU_BODY(index_t row, index_t k) {
            return cols[k] <= row && !has_mirror(row_offsets, cols, values, row, k, hermitian);
        });
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
// `asked`, which `holds(hermitian)` says. "The same" is to the last bit, so that half of the matrix gives the other
// half back; of a conjugate, but for the sign of a zero imaginary part. Names the first entry, in row order, of which
// that is not so.
template <class T, class Passes, class Holds>
Symmetry find_symmetry(Passes& passes, const std::string& format, const CsrMatrix<T>& csr, Symmetry asked,
                       const Holds& holds) {
    using symmetry_passes::describe, symmetry_passes::first_without_mirror, symmetry_passes::refuse;
    if (!kIsComplex<T> && asked == Symmetry::kAuto) asked = Symmetry::kSymmetric;
    // Of one that may be either, the message says what is in the way of that which it nearly is.
    std::int64_t first = -1;
    bool hermitian_is_nearer = false;
    for (const bool hermitian : {false, true}) {
        if (asked == (hermitian ? Symmetry::kSymmetric : Symmetry::kHermitian)) continue;
        if (holds(hermitian)) return hermitian ? Symmetry::kHermitian : Symmetry::kSymmetric;
        const std::int64_t k = first_without_mirror(passes, csr, hermitian);
        if (k > first) {
            first = k;
            hermitian_is_nearer = hermitian;
        }
    }
    refuse(format, csr, asked, describe(passes, csr, first, hermitian_is_nearer));
}

// The same, entry by entry.
template <class T, class Passes>
Symmetry find_symmetry(Passes& passes, const std::string& format, const CsrMatrix<T>& csr, Symmetry asked) {
    return find_symmetry(passes, format, csr, asked,
                         [&](bool hermitian) { return symmetry_passes::holds(passes, csr, hermitian); });
}

}  // namespace spmvgpu
