#include "formats/shared/symmetry.hpp"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <utility>

#include "core/errors.hpp"
#include "core/host_vector.hpp"
#include "core/interrupt.hpp"
#include "core/options.hpp"
#include "core/parallel.hpp"

namespace spmvgpu {

namespace {

// Position of the first entry of a row at or after a column.
template <class T>
index_t find_column(const CsrMatrix<T>& matrix, index_t row, index_t column) {
    const auto* const cols = matrix.col_indices.data();
    return static_cast<index_t>(
        std::lower_bound(cols + matrix.row_offsets[row], cols + matrix.row_offsets[row + 1], column) - cols);
}

// Returns true if every entry below the diagonal in the rows [begin, end) has its mirror image, and diagonal entries
// are their own; `surplus` counts the entries above the diagonal less the ones below it. In order of the rows, the
// mirror images in one row come in order: a cursor per row finds each of them without a search.
template <class T>
bool rows_are_mirrored(const CsrMatrix<T>& matrix, bool hermitian, index_t begin, index_t end, std::int64_t& surplus) {
    const auto& cols = matrix.col_indices;
    index_t first = end;
    for (index_t row = begin; row < end; ++row) {
        if (matrix.row_offsets[row] < matrix.row_offsets[row + 1])
            first = std::min(first, cols[matrix.row_offsets[row]]);
    }
    HostVector<index_t> cursors(end - first, -1);
    InterruptTimer timer;
    for (index_t row = begin; row < end; ++row) {
        const index_t row_end = matrix.row_offsets[row + 1];
        index_t k = matrix.row_offsets[row];
        timer.work(row_end - k + 1);
        for (; k < row_end && cols[k] < row; ++k) {
            const index_t mirror = cols[k];
            index_t& cursor = cursors[mirror - first];
            if (cursor < 0) cursor = find_column(matrix, mirror, begin);
            if (cursor == matrix.row_offsets[mirror + 1] || cols[cursor] != row ||
                !are_mirrored(matrix.values[cursor], matrix.values[k], hermitian)) {
                return false;
            }
            ++cursor;
            --surplus;
        }
        if (k < row_end && cols[k] == row) {
            if (!are_mirrored(matrix.values[k], matrix.values[k], hermitian)) return false;
            ++k;
        }
        surplus += row_end - k;
        if (row >= first) cursors[row - first] = k;
    }
    return true;
}

template <class T>
bool is_symmetric(const CsrMatrix<T>& matrix, bool hermitian) {
    // Pieces are few and large, because each keeps a cursor for each row that its mirror images lie in.
    const std::int64_t pieces = std::min<std::int64_t>(piece_count(matrix.nnz), 64);
    std::vector<std::int64_t> surplus(pieces, 0);
    std::atomic<bool> mirrored = true;
    for_each_piece(pieces, [&](std::int64_t p) {
        const auto begin = static_cast<index_t>(part_begin(matrix.rows, pieces, p));
        const auto end = static_cast<index_t>(part_begin(matrix.rows, pieces, p + 1));
        if (mirrored && !rows_are_mirrored(matrix, hermitian, begin, end, surplus[p])) mirrored = false;
    });
    return mirrored && std::accumulate(surplus.begin(), surplus.end(), std::int64_t(0)) == 0;
}

std::string position(index_t row, index_t col) {
    std::string text = "(";
    return text + std::to_string(row) + ", " + std::to_string(col) + ")";
}

template <class T>
std::string value_text(T value) {
    if constexpr (kIsComplex<T>) {
        const std::string imag = format_number(static_cast<double>(value.imag));
        return format_number(static_cast<double>(value.real)) + (imag[0] == '-' ? "" : "+") + imag + "j";
    } else {
        return format_number(static_cast<double>(value));
    }
}

// Describes the first entry without its mirror image in a message.
template <class T>
std::string first_asymmetry(const CsrMatrix<T>& matrix, bool hermitian) {
    InterruptTimer timer;
    for (index_t row = 0; row < matrix.rows; ++row) {
        timer.work(matrix.row_offsets[row + 1] - matrix.row_offsets[row] + 1);
        for (index_t k = matrix.row_offsets[row]; k < matrix.row_offsets[row + 1]; ++k) {
            const index_t col = matrix.col_indices[k], mirror = find_column(matrix, col, row);
            const bool stored = mirror < matrix.row_offsets[col + 1] && matrix.col_indices[mirror] == row;
            if (stored && are_mirrored(matrix.values[k], matrix.values[mirror], hermitian)) continue;
            const T* const there = stored ? matrix.values.data() + mirror : nullptr;
            return describe_asymmetry(row, col, matrix.values[k], there, hermitian);
        }
    }
    return "";
}

}  // namespace

void refuse_new_values(const std::string& format, index_t k, index_t mirrored, bool hermitian) {
    const std::string kind = hermitian ? "Hermitian" : "symmetric";
    throw FormatError("format '" + format + "' holds half of a " + kind +
                      " matrix, and with the new values it is not " + kind + ": those at " + std::to_string(k) +
                      " and " + std::to_string(mirrored) +
                      (k == mirrored ? " belong to the diagonal and are not real"
                       : hermitian   ? " are not each other's conjugates"
                                     : " are not the same") +
                      "; format 'csr' takes any values");
}

void refuse_unsymmetric(const std::string& format, index_t rows, index_t cols, std::size_t bytes, Symmetry asked,
                        const std::string& why) {
    std::string needed = asked == Symmetry::kAuto        ? "a symmetric or Hermitian matrix: "
                         : asked == Symmetry::kHermitian ? "a Hermitian matrix: "
                                                         : "a symmetric matrix: ";
    if (why.empty()) {
        needed = "a square matrix, and this one has " + std::to_string(rows) + " rows and " + std::to_string(cols) +
                 " columns";
    }
    throw FormatError("format '" + format + "' needs " + needed + why + "; format 'csr' fits in " +
                      std::to_string(bytes) + " bytes");
}

template <class T>
std::string describe_asymmetry(index_t row, index_t col, T here, const T* there, bool hermitian) {
    std::string text = "entry " + position(row, col) + " is " + value_text(here);
    if (row == col) return text + ", which is not real";
    text += ", but " + position(col, row) + " is ";
    if (there == nullptr) return text + "not stored";
    const std::string other = value_text(*there);
    const bool looks_right = value_text(here) == (hermitian ? value_text(Mirror<T>(true)(*there)) : other);
    return text + (!looks_right ? other
                   : hermitian  ? "not its conjugate to the last bit"
                                : "not the same to the last bit");
}

template <class T>
std::string asymmetry(const CsrMatrix<T>& matrix, bool hermitian) {
    return is_symmetric(matrix, hermitian) ? "" : first_asymmetry(matrix, hermitian);
}

#define INSTANTIATE(T)                                                            \
    template std::string describe_asymmetry(index_t, index_t, T, const T*, bool); \
    template std::string asymmetry(const CsrMatrix<T>&, bool);
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
