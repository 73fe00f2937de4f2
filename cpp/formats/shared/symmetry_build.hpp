// The symmetry of a matrix, as passes on any device; see symmetry.hpp and formats/builder.hpp.
#pragma once

#include <string>

#include "core/csr_matrix.hpp"
#include "core/passes/passes.hpp"
#include "formats/shared/symmetry.hpp"

namespace spmvgpu {

namespace symmetry_passes {

// The entries of a matrix, or of some rows of a larger one: column c belongs to row c - before, which may be absent.
template <class T>
struct MatrixRows {
    index_t rows, before;
    const index_t *row_offsets, *cols;
    const T* values;

    // Returns true if the row of the mirror image of entry k is present.
    constexpr bool reaches_row(index_t k) const { return cols[k] >= before && cols[k] - before < rows; }

    // The mirror image of entry k, which is in this row, if its row is present; -1 if it is not stored. In a mesh that
    // looks the same from every node it is as far from the end of its row as the entry is from the begin of its own.
    constexpr std::int64_t mirror_of(index_t row, index_t k) const {
        const index_t there = cols[k] - before, end = row_offsets[there + 1];
        const index_t likely = end - 1 - (k - row_offsets[row]);
        if (likely >= row_offsets[there] && cols[likely] - before == row) return likely;
        const std::int64_t mirror = first_not_below(cols, row_offsets[there], end, std::int64_t(row) + before);
        return mirror < end && cols[mirror] - before == row ? mirror : -1;
    }

    // Returns true if the mirror image is correct or its row is not present.
    constexpr bool has_mirror(index_t row, index_t k, bool hermitian) const {
        if (!reaches_row(k)) return true;
        const std::int64_t mirror = mirror_of(row, k);
        return mirror >= 0 && are_mirrored(values[k], values[mirror], hermitian);
    }
};

template <class T>
MatrixRows<T> entries_of(const CsrMatrix<T>& csr, index_t before) {
    return {csr.rows, before, csr.row_offsets.data(), csr.col_indices.data(), csr.values.data()};
}

// The number of entries with mirror images above the diagonal, less the number below it.
template <class T, class Passes>
std::int64_t count_surplus(Passes& passes, const MatrixRows<T>& entries) {
    return passes.template reduce<std::int64_t>(entries.rows, [=] SPMVGPU_BODY(std::int64_t row) {
        const std::int64_t begin = entries.row_offsets[row], end = entries.row_offsets[row + 1];
        const std::int64_t before = entries.before;
        const auto from = [&](std::int64_t col) { return first_not_below(entries.cols, begin, end, col); };
        return (from(before + entries.rows) - from(before + row + 1)) - (from(before + row) - from(before));
    });
}

// Returns true if all entries on and below the diagonal have mirror images, and above it there are as many entries.
template <class T, class Passes>
bool holds(Passes& passes, const CsrMatrix<T>& csr, bool hermitian, index_t before) {
    const MatrixRows<T> entries = entries_of(csr, before);
    if (count_surplus(passes, entries) != 0) return false;
    return !any_entry(passes, csr.rows, entries.row_offsets, csr.nnz, [=] SPMVGPU_BODY(index_t row, index_t k) {
        return entries.cols[k] - entries.before <= row && !entries.has_mirror(row, k, hermitian);
    });
}

// The first entry without its mirror image, if there is one. It is near the front in most matrices, so stretches of
// entries are searched, each longer than the one before.
template <class T, class Passes>
std::int64_t first_without_mirror(Passes& passes, const CsrMatrix<T>& csr, bool hermitian, index_t before) {
    const MatrixRows<T> entries = entries_of(csr, before);
    constexpr std::int64_t kFirst = 1 << 16, kTimes = 8;
    for (std::int64_t begin = 0, length = kFirst; begin < csr.nnz; begin += length, length *= kTimes) {
        const std::int64_t end = begin + length < csr.nnz ? begin + length : csr.nnz;
        const auto from_end = largest<std::int64_t>(passes, end - begin, [=] SPMVGPU_BODY(std::int64_t i) {
            const auto k = static_cast<index_t>(begin + i);
            const index_t row = row_of_entry(entries.row_offsets, entries.rows, k);
            return entries.has_mirror(row, k, hermitian) ? std::int64_t(0) : end - k;
        });
        if (from_end > 0) return end - from_end;
    }
    return csr.nnz;
}

template <class T, class Passes>
std::string describe(Passes& passes, const CsrMatrix<T>& csr, std::int64_t k, bool hermitian, index_t before) {
    const MatrixRows<T> entries = entries_of(csr, before);
    // row, column, and the position of the mirror image, or -1
    Array<index_t> found = passes.template scratch<index_t>(3);
    index_t* const to = found.data();
    passes.each(1, [=] SPMVGPU_BODY(std::int64_t) {
        const auto entry = static_cast<index_t>(k);
        to[0] = row_of_entry(entries.row_offsets, entries.rows, entry);
        to[1] = entries.cols[entry] - entries.before;
        to[2] = static_cast<index_t>(entries.mirror_of(to[0], entry));
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

template <class T>
void check_square(const std::string& format, const CsrMatrix<T>& csr, Symmetry asked) {
    if (csr.rows != csr.cols) symmetry_passes::refuse(format, csr, asked, "");
}

// The symmetry of a square matrix, or of its rows from `before` on with the columns that they reach. A real matrix has
// the symmetry that is asked for, as both are equal. Throws FormatError, in the name of the format, unless the matrix
// stores for every entry (i, j) an entry (j, i) as `asked`, which `holds(hermitian)` checks. Entries must be equal to
// the last bit, so that half of the matrix gives the other half back; conjugates may differ in the sign of a zero
// imaginary part. The message names the first entry, in row order, that breaks this.
template <class T, class Passes, class Holds>
Symmetry find_symmetry(Passes& passes, const std::string& format, const CsrMatrix<T>& csr, Symmetry asked,
                       index_t before, const Holds& holds) {
    using symmetry_passes::describe, symmetry_passes::first_without_mirror, symmetry_passes::refuse;
    if (!kIsComplex<T> && asked == Symmetry::kAuto) asked = Symmetry::kSymmetric;
    // For a matrix that may be either, the message names the obstacle to the symmetry that it nearly has.
    std::int64_t first = -1;
    bool hermitian_is_nearer = false;
    for (const bool hermitian : {false, true}) {
        if (asked == (hermitian ? Symmetry::kSymmetric : Symmetry::kHermitian)) continue;
        if (holds(hermitian)) return hermitian ? Symmetry::kHermitian : Symmetry::kSymmetric;
        const std::int64_t k = first_without_mirror(passes, csr, hermitian, before);
        if (k > first) {
            first = k;
            hermitian_is_nearer = hermitian;
        }
    }
    refuse(format, csr, asked, describe(passes, csr, first, hermitian_is_nearer, before));
}

// find_symmetry() with a check of every entry.
template <class T, class Passes>
Symmetry find_symmetry(Passes& passes, const std::string& format, const CsrMatrix<T>& csr, Symmetry asked,
                       index_t before) {
    return find_symmetry(passes, format, csr, asked, before,
                         [&](bool hermitian) { return symmetry_passes::holds(passes, csr, hermitian, before); });
}

}  // namespace spmvgpu
