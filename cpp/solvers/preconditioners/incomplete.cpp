#include "solvers/preconditioners/incomplete.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "core/interrupt.hpp"
#include "core/parallel.hpp"
#include "solvers/engines/scalar.hpp"
#include "solvers/preconditioners/fill_levels.hpp"

namespace spmvgpu {

namespace {

constexpr int kWarp = 32;
constexpr std::int64_t kEntryNanoseconds = 2;  // in a triangular solve, for one thread

// Rows by level: level k has order[begin[k]] to order[begin[k + 1]], in ascending order.
struct Levels {
    std::vector<index_t> begin, order;
};

// The `level` of each row is one more than the largest of the rows that it refers to.
Levels levels_of(const std::vector<index_t>& level) {
    Levels levels;
    const index_t count = level.empty() ? 0 : 1 + *std::max_element(level.begin(), level.end());
    levels.begin.assign(count + 1, 0);
    for (const index_t own : level) ++levels.begin[own + 1];
    for (index_t k = 0; k < count; ++k) levels.begin[k + 1] += levels.begin[k];
    std::vector<index_t> next(levels.begin.begin(), levels.begin.end() - 1);
    levels.order.resize(level.size());
    for (index_t row = 0; row < static_cast<index_t>(level.size()); ++row) levels.order[next[level[row]]++] = row;
    return levels;
}

// A canonical matrix, with the place of each row's diagonal entry.
struct FactorPattern {
    index_t n;
    const index_t* offsets;
    const index_t* cols;
    std::vector<index_t> diagonal;
    index_t incomplete_row = -1;  // the first row without a diagonal entry

    template <class T>
    explicit FactorPattern(const CsrMatrix<T>& A)
        : n(A.rows), offsets(A.row_offsets.data()), cols(A.col_indices.data()), diagonal(A.rows) {
        for (index_t row = 0; row < n && incomplete_row < 0; ++row) {
            const index_t* const found = std::lower_bound(cols + offsets[row], cols + offsets[row + 1], row);
            if (found == cols + offsets[row + 1] || *found != row) incomplete_row = row;
            diagonal[row] = static_cast<index_t>(found - cols);
        }
    }

    // Entries of a row to the left of its diagonal, or to the right.
    index_t begin(index_t row, bool lower) const { return lower ? offsets[row] : diagonal[row] + 1; }
    index_t end(index_t row, bool lower) const { return lower ? diagonal[row] : offsets[row + 1]; }

    Levels levels(bool lower) const {
        std::vector<index_t> level(n, 0);
        InterruptTimer timer;
        for (index_t step = 0; step < n; ++step) {
            const index_t row = lower ? step : n - 1 - step;
            for (index_t k = begin(row, lower); k < end(row, lower); ++k) {
                level[row] = std::max(level[row], level[cols[k]] + 1);
            }
            timer.work(end(row, lower) - begin(row, lower) + 1);
        }
        return levels_of(level);
    }
};

struct Stretch {
    index_t begin, end;
    index_t length() const { return end - begin; }
};

// Calls visit(i, j) for the entries i of one range and j of another in the same column. The longer one is searched if
// it is far longer, so that a row with very many entries costs its neighbours no more than their own entries do.
template <class Visit>
void for_common_columns(const index_t* cols, Stretch first, Stretch second, const Visit& visit) {
    constexpr int kFarLonger = 16;
    const bool first_is_longer = first.length() > second.length();
    const Stretch shorter = first_is_longer ? second : first, longer = first_is_longer ? first : second;
    const bool searches = longer.length() / kFarLonger > shorter.length();
    index_t j = longer.begin;
    for (index_t i = shorter.begin; i < shorter.end; ++i) {
        if (searches) {
            j = static_cast<index_t>(std::lower_bound(cols + j, cols + longer.end, cols[i]) - cols);
        } else {
            while (j < longer.end && cols[j] < cols[i]) ++j;
        }
        if (j == longer.end) return;
        if (cols[j] == cols[i]) first_is_longer ? visit(j, i) : visit(i, j);
    }
}

// Computes row `row` of the factors in place; the rows that it refers to are done.
template <class W>
void eliminate(const FactorPattern& pattern, index_t row, W* values) {
    const index_t end = pattern.offsets[row + 1];
    for (index_t k = pattern.offsets[row]; k < pattern.diagonal[row]; ++k) {
        const index_t above = pattern.cols[k];
        const W factor = values[k] = values[k] / values[pattern.diagonal[above]];
        for_common_columns(pattern.cols, {k + 1, end}, {pattern.diagonal[above] + 1, pattern.offsets[above + 1]},
                           [&](index_t own, index_t i) { values[own] -= factor * values[i]; });
    }
}

// Lanes for rows of this mean length; more if levels are so narrow that filling them up would cost more memory than the
// matrix has rows, and if the longest row would keep few lanes busy long after all others are done.
int lanes_for(const FactorPattern& pattern, const Levels& levels, std::int64_t entries, index_t longest_row) {
    constexpr index_t kEntriesOfLane = 1024;
    int lanes = 1;
    while (lanes < kWarp && longest_row / lanes > kEntriesOfLane) lanes *= 2;
    while (lanes < kWarp && lanes * std::int64_t(pattern.n) < entries) lanes *= 2;
    while (lanes < kWarp && std::int64_t(levels.begin.size()) * (kWarp / lanes) > pattern.n) lanes *= 2;
    return lanes;
}

// One of two factors in one matrix, whose diagonal has the inverse pivots; they belong to this factor if `has_pivots`.
template <class T>
Triangle<T> triangle_of(const FactorPattern& pattern, const Array<T>& values, bool lower, bool has_pivots,
                        Device device) {
    const Levels levels = pattern.levels(lower);
    std::int64_t entries = 0;
    index_t longest_row = 0;
    for (index_t row = 0; row < pattern.n; ++row) {
        const index_t length = pattern.end(row, lower) - pattern.begin(row, lower);
        entries += length;
        longest_row = std::max(longest_row, length);
    }

    Triangle<T> triangle;
    triangle.lanes = lanes_for(pattern, levels, entries, longest_row);
    const index_t multiple = device.is_gpu() ? kWarp / triangle.lanes : 1;
    std::int64_t places = 0;
    for (std::size_t k = 0; k + 1 < levels.begin.size(); ++k) {
        triangle.begin.push_back(static_cast<index_t>(places));
        const index_t width = levels.begin[k + 1] - levels.begin[k];
        places += (std::int64_t(width) + multiple - 1) / multiple * multiple;
        if (places > INT32_MAX) throw std::length_error("the levels of a triangular matrix need too many places");
    }
    triangle.begin.push_back(static_cast<index_t>(places));

    triangle.rows = Array<index_t>(places);
    triangle.row_offsets = Array<index_t>(places + 1);
    triangle.col_indices = Array<index_t>(entries);
    triangle.values = Array<T>(entries);
    if (has_pivots) triangle.inverse_diagonal = Array<T>(places);
    InterruptTimer timer;
    index_t place = 0, at = 0;
    for (std::size_t k = 0; k + 1 < levels.begin.size(); ++k) {
        for (index_t i = levels.begin[k]; place < triangle.begin[k + 1]; ++i, ++place) {
            const bool filled = i < levels.begin[k + 1];
            const index_t row = filled ? levels.order[i] : Triangle<T>::kNoRow;
            triangle.rows[place] = row;
            triangle.row_offsets[place] = at;
            if (has_pivots) triangle.inverse_diagonal[place] = filled ? values[pattern.diagonal[row]] : T(0);
            if (!filled) continue;
            for (index_t entry = pattern.begin(row, lower); entry < pattern.end(row, lower); ++entry, ++at) {
                triangle.col_indices[at] = pattern.cols[entry];
                triangle.values[at] = values[entry];
            }
            timer.work(pattern.end(row, lower) - pattern.begin(row, lower) + 1);
        }
    }
    triangle.row_offsets[place] = at;
    return triangle.to(device);
}

template <class T>
void solve_triangle(const Triangle<T>& triangle, const T* b, T* x, std::ptrdiff_t n, index_t columns) {
    const index_t* const offsets = triangle.row_offsets.data();
    for (std::size_t k = 0; k + 1 < triangle.begin.size(); ++k) {
        const index_t first = triangle.begin[k], end = triangle.begin[k + 1];
        const std::int64_t work = offsets[end] - offsets[first] + (end - first);
        parallel_for(end - first, kEntryNanoseconds * work * columns, [&](index_t i) {
            const index_t place = first + i, row = triangle.rows[place];
            const T* const own_b = b + row;
            T* const own_x = x + row;
            for (std::ptrdiff_t j = 0; j < columns; ++j) {
                T sum = own_b[j * n];
                for (index_t entry = offsets[place]; entry < offsets[place + 1]; ++entry) {
                    sum -= triangle.values[entry] * x[triangle.col_indices[entry] + j * n];
                }
                own_x[j * n] = triangle.inverse_diagonal.size() > 0 ? sum * triangle.inverse_diagonal[place] : sum;
            }
        });
    }
}

}  // namespace

template <class T>
Triangle<T> Triangle<T>::to(Device device) const {
    return {lanes,
            begin,
            rows.to(device),
            row_offsets.to(device),
            col_indices.to(device),
            values.to(device),
            inverse_diagonal.size() > 0 ? inverse_diagonal.to(device) : Array<T>()};
}

template <class T>
IncompleteFactors<T>::IncompleteFactors(const CsrMatrix<T>& A, Device device, int levels)
    : n_(A.rows), device_(device) {
    levels > 0 ? factorise(with_fill(A, levels)) : factorise(A);
}

template <class T>
void IncompleteFactors<T>::factorise(const CsrMatrix<T>& A) {
    const FactorPattern pattern(A);
    if (pattern.incomplete_row >= 0) {
        failed_ = Pivot<T>{pattern.incomplete_row, 0};
        return;
    }
    const index_t nnz = A.row_offsets[n_];
    std::vector<Wide<T>> factors(A.values.begin(), A.values.end());
    const Levels levels = pattern.levels(true);
    const std::int64_t row_work = 3 * kEntryNanoseconds * (nnz / std::max<index_t>(n_, 1) + 1);
    for (std::size_t k = 0; k + 1 < levels.begin.size(); ++k) {
        const index_t first = levels.begin[k], end = levels.begin[k + 1];
        std::int64_t entries = 0;
        for (index_t i = first; i < end; ++i)
            entries += pattern.end(levels.order[i], true) - pattern.begin(levels.order[i], true);
        check_interrupt();
        parallel_for(end - first, entries * row_work,
                     [&](index_t i) { eliminate(pattern, levels.order[first + i], factors.data()); });
    }
    Array<T> values(nnz);
    std::transform(factors.begin(), factors.end(), values.begin(), [](Wide<T> value) { return T(value); });
    for (index_t row = 0; row < n_; ++row) {
        const Wide<T> pivot = factors[pattern.diagonal[row]];
        const T inverse = values[pattern.diagonal[row]] = T(Wide<T>(1) / pivot);
        const double size = size_of(pivot), inverse_size = size_of(Wide<T>(inverse));
        if (!(real_of(pivot) > 0) && !nonpositive_) nonpositive_ = Pivot<T>{row, pivot};
        if (!failed_ && (size == 0 || !finite(size) || !finite(inverse_size))) failed_ = Pivot<T>{row, pivot};
    }
    if (failed_) return;
    factors = std::vector<Wide<T>>();  // frees the memory
    lower_ = triangle_of<T>(pattern, values, true, false, device_);
    upper_ = triangle_of<T>(pattern, values, false, true, device_);
}

template <class T>
IncompleteFactors<T>::IncompleteFactors(const CsrMatrix<T>& factors, bool pivots_in_lower, Device device)
    : n_(factors.rows), device_(device), pivots_in_lower_(pivots_in_lower) {
    const FactorPattern pattern(factors);
    if (pattern.incomplete_row >= 0) throw std::invalid_argument("factors need all entries of the diagonal");
    lower_ = triangle_of<T>(pattern, factors.values, true, pivots_in_lower, device);
    upper_ = triangle_of<T>(pattern, factors.values, false, !pivots_in_lower, device);
}

template <class T>
CsrMatrix<T> IncompleteFactors<T>::to_csr() const {
    const Triangle<T> lower = lower_.to({}), upper = upper_.to({});
    const auto for_rows = [](const Triangle<T>& triangle, const auto& body) {
        for (index_t place = 0; place < triangle.places(); ++place) {
            if (triangle.rows[place] != Triangle<T>::kNoRow) body(triangle.rows[place], place);
        }
    };
    auto csr = CsrMatrix<T>::allocate(n_, n_, static_cast<index_t>(lower.values.size() + upper.values.size() + n_));
    index_t* const offsets = csr.row_offsets.data();
    std::fill_n(offsets, n_ + std::size_t(1), 0);
    for (const Triangle<T>* triangle : {&lower, &upper}) {
        for_rows(*triangle, [&](index_t row, index_t place) {
            offsets[row + 1] += triangle->row_offsets[place + 1] - triangle->row_offsets[place];
        });
    }
    for (index_t row = 0; row < n_; ++row) offsets[row + 1] += offsets[row] + 1;

    std::vector<index_t> next(offsets, offsets + n_);
    const auto put = [&](index_t row, index_t col, T value) {
        csr.col_indices[next[row]] = col;
        csr.values[next[row]++] = value;
    };
    const auto put_entries = [&](const Triangle<T>& triangle) {
        for_rows(triangle, [&](index_t row, index_t place) {
            for (index_t entry = triangle.row_offsets[place]; entry < triangle.row_offsets[place + 1]; ++entry) {
                put(row, triangle.col_indices[entry], triangle.values[entry]);
            }
        });
    };
    const Triangle<T>& with_pivots = pivots_in_lower_ ? lower : upper;
    put_entries(lower);
    for_rows(with_pivots, [&](index_t row, index_t place) { put(row, row, with_pivots.inverse_diagonal[place]); });
    put_entries(upper);
    return csr;
}

template <class T>
std::size_t IncompleteFactors<T>::nbytes() const {
    std::size_t bytes = 0;
    for (const Triangle<T>* triangle : {&lower_, &upper_}) {
        bytes += triangle->rows.bytes() + triangle->row_offsets.bytes() + triangle->col_indices.bytes() +
                 triangle->values.bytes() + triangle->inverse_diagonal.bytes();
    }
    return bytes;
}

template <class T>
FactorsMap<T>::FactorsMap(std::shared_ptr<const IncompleteFactors<T>> factors, std::shared_ptr<SolverMemory> memory)
    : factors_(std::move(factors)), memory_(std::move(memory)) {
    if (factors_->failed()) throw std::invalid_argument("a factorisation that failed cannot be solved with");
}

template <class T>
void FactorsMap<T>::apply_columns(const T* x, T* y, index_t n, index_t columns, Stream stream) const {
    const Device device = factors_->device();
    if (columns > columns_) {
        columns_ = columns;
        lease_ = std::make_unique<SolverMemory::Lease>(*memory_, device, [&](Arena& arena) {
            between_ = arena.take<T>(std::size_t(n) * columns);
            state_ = arena.take<unsigned>(device.is_gpu() ? gpu::solve_state_size(n) * columns : 0);
        });
    }
#ifdef SPMVGPU_CUDA
    if (device.is_gpu()) return gpu::solve_triangles(*factors_, x, between_, y, columns, state_, stream);
#endif
    static_cast<void>(stream);
    solve_triangle(factors_->lower(), x, between_, n, columns);
    solve_triangle(factors_->upper(), static_cast<const T*>(between_), y, n, columns);
}

#define INSTANTIATE(T)                   \
    template struct Triangle<T>;         \
    template class IncompleteFactors<T>; \
    template class FactorsMap<T>;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
