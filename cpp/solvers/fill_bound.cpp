#include "solvers/fill_bound.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/interrupt.hpp"

namespace spmvgpu {

namespace {

constexpr index_t kNone = -1;

// Rows with one pattern, whose remaining columns begin at `first`.
struct Front {
    std::vector<index_t> cols;
    std::size_t first = 0;
    index_t rows = 1;
    index_t next = kNone;  // front that begins with the same column

    std::size_t width() const { return cols.size() - first; }
};

class Elimination {
public:
    explicit Elimination(const CsrPattern& A) : fronts_(A.rows), heads_(A.cols, kNone), seen_(A.cols, kNone) {
        for (index_t row = 0; row < A.rows; ++row) {
            fronts_[row].cols.assign(A.col_indices + A.row_offsets[row], A.col_indices + A.row_offsets[row + 1]);
            put(row);
        }
    }

    // Eliminates a column, and adds its cost.
    void step(index_t col, FillBound& bound) {
        const index_t own = heads_[col];
        if (own == kNone) return;  // the matrix is singular
        Front& front = fronts_[own];
        if (front.next != kNone) unite(front, col);
        const double below = front.rows - 1, beside = double(front.width()) - 1;
        bound.entries += below + beside + 1;
        bound.operations += below + 2 * below * beside;
        ++front.first;
        if (--front.rows > 0) {
            put(own);
        } else {
            front.cols = {};
        }
    }

private:
    void put(index_t front) {
        Front& own = fronts_[front];
        if (own.width() == 0) return;
        index_t& head = heads_[own.cols[own.first]];
        own.next = head;
        head = front;
    }

    // Merges all fronts that begin with a column into the first of them.
    void unite(Front& front, index_t col) {
        std::vector<index_t> cols;
        index_t rows = 0;
        for (const Front* other = &front;;) {
            rows += other->rows;
            for (std::size_t k = other->first; k < other->cols.size(); ++k) {
                if (seen_[other->cols[k]] != col) cols.push_back(other->cols[k]);
                seen_[other->cols[k]] = col;
            }
            timer_.work(static_cast<long>(other->width()));
            if (other->next == kNone) break;
            other = &fronts_[other->next];
        }
        for (index_t next = front.next; next != kNone;) {
            Front& other = fronts_[next];
            next = other.next;
            other.cols = {};
        }
        std::sort(cols.begin(), cols.end());
        front.cols = std::move(cols);
        front.first = 0;
        front.rows = rows;
    }

    std::vector<Front> fronts_;
    std::vector<index_t> heads_;  // a front that begins with the column, for each column
    std::vector<index_t> seen_;   // the last elimination step with a column, for each column
    InterruptTimer timer_;
};

}  // namespace

FillBound fill_bound(const CsrPattern& A, double most) {
    FillBound bound;
    Elimination elimination(A);
    for (index_t col = 0; col < A.cols && bound.operations <= most; ++col) elimination.step(col, bound);
    return bound;
}

}  // namespace spmvgpu
