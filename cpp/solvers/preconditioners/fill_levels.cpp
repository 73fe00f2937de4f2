// An entry (i, j) of the factors has a level of at most k if a path of at most k + 1 entries of the matrix leads from i
// to j through numbers below both (Hysom and Pothen, A Scalable Parallel Algorithm for Incomplete Factor
// Preconditioning, 2001). Rows of U are found on their own, by a search from i, and columns of L in the transpose.
#include "solvers/preconditioners/fill_levels.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/errors.hpp"
#include "core/interrupt.hpp"
#include "core/parallel.hpp"
#include "core/transpose.hpp"
#include "core/value_types.hpp"
#include "core/wide.hpp"

namespace spmvgpu {

namespace {

void check_count(std::int64_t entries, int levels) {
    if (entries <= std::numeric_limits<index_t>::max()) return;
    throw std::invalid_argument("with levels=" + std::to_string(levels) +
                                " the factors have more than 2**31 - 1 entries; give fewer levels");
}

// Searches from one row after the other, with memory for all of them.
template <class T>
class PathSearch {
public:
    PathSearch(const CsrMatrix<T>& A, int levels, bool with_diagonal)
        : A_(A), levels_(levels), with_diagonal_(with_diagonal), seen_(A.rows, -1) {}

    // The entries of a row of U, in no order, until the next search.
    std::vector<std::pair<index_t, T>>& row(index_t row) {
        found_.clear();
        reached_.assign(1, row);
        for (int level = 0; level <= levels_ && !reached_.empty(); ++level) {
            next_.clear();
            for (const index_t from : reached_) {
                for (index_t k = A_.row_offsets[from]; k < A_.row_offsets[from + 1]; ++k) {
                    const index_t to = A_.col_indices[k];
                    if (std::exchange(seen_[to], row) == row) continue;
                    if (to < row) {
                        next_.push_back(to);
                    } else if (to > row || with_diagonal_) {
                        found_.emplace_back(to, level == 0 ? A_.values[k] : T(0));
                    }
                }
                timer_.work(A_.row_length(from) + 1);
            }
            std::swap(reached_, next_);
        }
        return found_;
    }

private:
    const CsrMatrix<T>& A_;
    int levels_;
    bool with_diagonal_;
    std::vector<index_t> seen_, reached_, next_;
    std::vector<std::pair<index_t, T>> found_;
    InterruptTimer timer_;
};

// Calls visit(search, row) for all rows.
template <class T, class Visit>
void for_rows(const CsrMatrix<T>& A, int levels, bool with_diagonal, const Visit& visit) {
    constexpr std::int64_t kNanoseconds = 5;
    const std::int64_t work = kNanoseconds * (std::min(levels, 9) + 1) * (std::int64_t(A.nnz) + A.rows);
    // Each piece has memory for all numbers.
    const std::int64_t pieces = std::min<std::int64_t>(piece_count(work), 4 * max_threads());
    for_each_piece(pieces, [&](std::int64_t piece) {
        PathSearch<T> search(A, levels, with_diagonal);
        const auto end = static_cast<index_t>(part_begin(A.rows, pieces, piece + 1));
        for (auto row = static_cast<index_t>(part_begin(A.rows, pieces, piece)); row < end; ++row) visit(search, row);
    });
}

// The entries above the diagonal, or from it on, with fill.
template <class T>
CsrMatrix<T> upper_part(const CsrMatrix<T>& A, int levels, bool with_diagonal) {
    Array<index_t> offsets(A.rows + std::size_t(1));
    offsets[0] = 0;
    // As much as an entry of each part, and its elimination in double precision, take.
    constexpr std::size_t kBytes = 2 * (sizeof(index_t) + sizeof(T) + sizeof(Wide<T>));
    const std::size_t free = free_host_memory();
    std::atomic<std::int64_t> entries = 0;
    for_rows(A, levels, with_diagonal, [&](PathSearch<T>& search, index_t row) {
        const std::size_t length = search.row(row).size();
        offsets[row + 1] = static_cast<index_t>(length);
        const std::int64_t found = entries += length;
        check_count(found, levels);
        if (found * kBytes > free) throw OutOfMemory("cpu", found * kBytes, free);
    });
    for (index_t row = 0; row < A.rows; ++row) offsets[row + 1] += offsets[row];

    auto upper = CsrMatrix<T>::allocate(A.rows, A.cols, offsets[A.rows]);
    upper.row_offsets = std::move(offsets);
    for_rows(A, levels, with_diagonal, [&](PathSearch<T>& search, index_t row) {
        auto& found = search.row(row);
        std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
        index_t to = upper.row_offsets[row];
        for (const auto& [col, value] : found) {
            upper.col_indices[to] = col;
            upper.values[to++] = value;
        }
    });
    return upper;
}

}  // namespace

template <class T>
CsrMatrix<T> with_fill(const CsrMatrix<T>& A, int levels) {
    const CsrMatrix<T> upper = upper_part(A, levels, true);
    const CsrMatrix<T> lower = transpose(upper_part(transpose(A), levels, false));
    const std::int64_t entries = std::int64_t(lower.nnz) + upper.nnz;
    check_count(entries, levels);
    auto filled = CsrMatrix<T>::allocate(A.rows, A.cols, static_cast<index_t>(entries));
    for (index_t row = 0; row <= A.rows; ++row) {
        filled.row_offsets[row] = lower.row_offsets[row] + upper.row_offsets[row];
    }
    parallel_for(A.rows, entries, [&](index_t row) {
        index_t to = filled.row_offsets[row];
        for (const CsrMatrix<T>* const part : {&lower, &upper}) {
            const index_t from = part->row_offsets[row], length = part->row_length(row);
            std::copy_n(part->col_indices.data() + from, length, filled.col_indices.data() + to);
            std::copy_n(part->values.data() + from, length, filled.values.data() + to);
            to += length;
        }
    });
    return filled;
}

#define INSTANTIATE(T) template CsrMatrix<T> with_fill(const CsrMatrix<T>&, int);
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
