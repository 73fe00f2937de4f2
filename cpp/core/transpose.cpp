#include "core/transpose.hpp"

#include <algorithm>
#include <utility>

#include "core/host_vector.hpp"
#include "core/interrupt.hpp"
#include "core/parallel.hpp"

namespace spmvgpu {

namespace {

// Number of pieces of the rows, each counted by itself: one per thread, as long as the counts, one for every column and
// piece, do not outgrow the matrix.
std::int64_t choose_pieces(index_t cols, index_t nnz) {
    constexpr std::int64_t kWorthAThread = 100'000;
    return std::clamp<std::int64_t>(std::min(nnz / (std::int64_t(cols) + 1), nnz / kWorthAThread), 1, max_threads());
}

}  // namespace

// A counting sort by column. As the rows of a piece go by in order, and the pieces lie one after the other, so do the
// columns of every row of the result.
template <class T>
CsrMatrix<T> transpose(const CsrMatrix<T>& matrix) {
    const std::int64_t cols = matrix.cols, pieces = choose_pieces(matrix.cols, matrix.nnz);
    HostVector<index_t> positions(pieces * cols,
                                  0);  // for each piece and column: first the count, then the next position
    // Calls visit(row, k, position) for every entry of a piece; all pieces have about as many entries.
    const auto visit_piece = [&](std::int64_t piece, auto visit) {
        const auto row_at = [&](std::int64_t p) {
            const auto nz = static_cast<index_t>(part_begin(matrix.nnz, pieces, p));
            return p == pieces ? matrix.rows
                               : std::lower_bound(matrix.row_offsets.begin(), matrix.row_offsets.end() - 1, nz) -
                                     matrix.row_offsets.begin();
        };
        index_t* const own = positions.data() + piece * cols;
        InterruptTimer timer;
        for (std::int64_t row = row_at(piece), end = row_at(piece + 1); row < end; ++row) {
            const index_t first = matrix.row_offsets[row], last = matrix.row_offsets[row + 1];
            for (index_t k = first; k < last; ++k) visit(row, k, own[matrix.col_indices[k]]);
            timer.work(last - first + 1);
        }
    };

    auto result = CsrMatrix<T>::allocate(matrix.cols, matrix.rows, matrix.nnz);
    for_each_piece(pieces, [&](std::int64_t piece) {
        visit_piece(piece, [](std::int64_t, index_t, index_t& count) { ++count; });
    });
    index_t next = 0;
    InterruptTimer timer;
    for (std::int64_t col = 0; col < cols; ++col) {
        result.row_offsets[col] = next;
        for (std::int64_t piece = 0; piece < pieces; ++piece) {
            next += std::exchange(positions[piece * cols + col], next);
        }
        timer.work(pieces);
    }
    result.row_offsets[cols] = next;
    for_each_piece(pieces, [&](std::int64_t piece) {
        visit_piece(piece, [&](std::int64_t row, index_t k, index_t& position) {
            result.col_indices[position] = static_cast<index_t>(row);
            result.values[position++] = matrix.values[k];
        });
    });
    return result;
}

#define INSTANTIATE(T) template CsrMatrix<T> transpose(const CsrMatrix<T>&);
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
