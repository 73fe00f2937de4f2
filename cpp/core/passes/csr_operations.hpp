// Operations on a matrix in CSR, on the device where it lies, for gpu/run.hpp.
#pragma once

#include "core/passes/clusters.hpp"
#include "core/passes/csr_passes.hpp"
#include "core/passes/host_passes.hpp"
#include "core/transpose.hpp"
#include "core/wide.hpp"

namespace spmvgpu {

struct LongestRow {
    using Result = index_t;
    CsrPattern csr;

    template <class Passes>
    Result operator()(Passes& passes) const {
        return longest_row(passes, csr.rows, csr.row_offsets);
    }
};

struct IsCanonical {
    using Result = bool;
    CsrPattern csr;

    template <class Passes>
    Result operator()(Passes& passes) const {
        return is_canonical(passes, csr.rows, csr.cols, csr.nnz, csr.row_offsets, csr.col_indices);
    }
};

struct ReachOfColumns {
    using Result = ColumnReach;
    CsrPattern csr;

    template <class Passes>
    Result operator()(Passes& passes) const {
        return column_reach(passes, csr.rows, csr.row_offsets, csr.col_indices);
    }
};

// Where ascending numbers first are at least as large as one, or their count, with the numbers before and there, which
// are 0 if there are none.
template <class Number>
struct FirstAtLeast {
    struct Result {
        std::int64_t place, before, there;
    };
    const Number* numbers;
    std::int64_t count, wanted;

    template <class Passes>
    Result operator()(Passes& passes) const {
        Array<Result> found = passes.template scratch<Result>(1);
        Result* const to = found.data();
        const FirstAtLeast search = *this;
        passes.each(1, [=] SPMVGPU_BODY(std::int64_t) {
            const auto [from, all, least] = search;
            const std::int64_t place = first_not_below(from, 0, all, least);
            *to = {place, place > 0 ? from[place - 1] : 0, place < all ? from[place] : 0};
        });
        return passes.read(to);
    }
};

// Row offsets from which that of the first row is taken off, which then begins at 0.
struct OffsetsLess {
    using Result = Array<index_t>;
    const Array<index_t>& offsets;
    index_t first;

    template <class Passes>
    Result operator()(Passes& passes) const {
        Array<index_t> less = passes.template make<index_t>(offsets.size());
        const index_t *const from = offsets.data(), own = first;
        index_t* const to = less.data();
        // Unchecked ones may differ by more than a number of this type can say.
        passes.each(offsets.size(),
                    [=] SPMVGPU_BODY(std::int64_t i) { to[i] = static_cast<index_t>(std::int64_t(from[i]) - own); });
        return less;
    }
};

// The row offsets of the rows from `begin` to before `end`, as of a matrix that consists of them, and their entries.
struct RowWindow {
    struct Result {
        Array<index_t> offsets;
        index_t first, nnz;
    };
    const Array<index_t>& offsets;
    index_t begin, end;

    template <class Passes>
    Result operator()(Passes& passes) const {
        const auto own = offsets.part(begin, end - begin + std::size_t(1));
        const index_t first = passes.read(own.begin()), nnz = passes.read(own.end() - 1) - first;
        return {OffsetsLess{own, first}(passes), first, nnz};
    }
};

struct Clustering {
    using Result = double;
    CsrPattern csr;

    template <class Passes>
    Result operator()(Passes& passes) const {
        return clustering(passes, csr.rows, csr.row_offsets, csr.col_indices);
    }
};

// Every step-th of an array, from the first on.
struct TakeEvery {
    using Result = Array<index_t>;
    const Array<index_t>& from;
    std::int64_t step;

    template <class Passes>
    Result operator()(Passes& passes) const {
        return take_every(passes, from.data(), static_cast<std::int64_t>(from.size()), step);
    }
};

// Entries (i, i + shift), from the first row that has one on.
template <class T>
struct Diagonal {
    using Result = Array<T>;
    const CsrMatrix<T>& csr;
    std::int64_t shift;

    template <class Passes>
    Result operator()(Passes& passes) const {
        const std::int64_t first = shift < 0 ? -shift : 0, from = shift < 0 ? 0 : shift;
        const std::int64_t count = std::max(std::int64_t(0), std::min(csr.rows - first, csr.cols - from));
        Array<T> diagonal = passes.template make<T>(count);
        const index_t *const row_offsets = csr.row_offsets.data(), *const col_indices = csr.col_indices.data();
        const T* const values = csr.values.data();
        T* const to = diagonal.data();
        passes.each(count, [=] SPMVGPU_BODY(std::int64_t i) {
            to[i] = entry(row_offsets, col_indices, values, first + i, from + i);
        });
        return diagonal;
    }
};

// The values of a canonical matrix in the places of another pattern, which contains its entries; zero in the other
// places.
template <class T>
struct PlaceValues {
    struct Result {
        Array<T> values;
        bool fit;  // false if an entry has no place in the pattern
    };
    CsrPattern places;
    const CsrMatrix<T>& from;  // on the same device, with as many rows

    template <class Passes>
    Result operator()(Passes& passes) const {
        Array<T> placed = passes.template make<T>(places.nnz);
        Array<Mark> outside = passes.template scratch<Mark>(1);
        T* const to = placed.data();
        Mark* const is_any_outside = outside.data();
        passes.fill(to, places.nnz, T(0));
        passes.fill(is_any_outside, 1, Mark(0));
        const CsrPattern own = places;
        const index_t* const col_indices = from.col_indices.data();
        const T* const values = from.values.data();
        passes.each_entry(from.rows, from.row_offsets.data(), from.nnz, [=] SPMVGPU_BODY(index_t row, index_t k) {
            const index_t col = col_indices[k];
            const std::int64_t begin = own.row_offsets[row], end = own.row_offsets[row + 1];
            // Equal patterns put the entry in the same place.
            const bool is_same = begin <= k && k < end && own.col_indices[k] == col;
            const std::int64_t place = is_same ? k : first_not_below(own.col_indices, begin, end, col);
            if (place < end && own.col_indices[place] == col) {
                to[place] = values[k];
            } else {
                set_mark(is_any_outside);
            }
        });
        const bool fit = passes.read(is_any_outside) == 0;
        return {std::move(placed), fit};
    }
};

// A summary of a matrix beside its diagonal. Sums are of the rows that are not empty, and of real parts.
struct DiagonalFacts {
    index_t negative = 0, others = 0;  // others are zero, not real, or have no finite inverse
    index_t empty_rows = 0;            // in which all entries are zero
    double sum = 0, inverses = 0;      // sums of the diagonal and of its inverse
    double entries = 0, scaled = 0;    // sums of all entries, as they are and divided by the diagonal of their row

    constexpr DiagonalFacts& operator+=(const DiagonalFacts& more) {
        negative += more.negative;
        others += more.others;
        empty_rows += more.empty_rows;
        sum += more.sum;
        inverses += more.inverses;
        entries += more.entries;
        scaled += more.scaled;
        return *this;
    }
};

// Sums over the entries of a row: of their real parts, and of bounds of their sizes.
struct RowSums {
    double entries = 0, sizes = 0;

    constexpr explicit RowSums(int /*zero*/ = 0) {}
    constexpr explicit RowSums(double entry) : entries(entry), sizes(entry < 0 ? -entry : entry) {}
    constexpr explicit RowSums(Complex<double> entry)
        : entries(entry.real), sizes(RowSums(entry.real).sizes + RowSums(entry.imag).sizes) {}
    constexpr RowSums& operator+=(const RowSums& more) {
        entries += more.entries;
        sizes += more.sizes;
        return *this;
    }
};

// The inverses of the diagonal entries of a square matrix, or of their absolute values, in an array on its device. An
// empty row gets a one, so that its residual is unchanged. Numbers that are neither positive nor negative give values
// of no use.
template <class T>
struct InvertDiagonal {
    using Result = DiagonalFacts;
    const CsrMatrix<T>& csr;
    bool of_sizes;
    T* to;

    template <class Passes>
    Result operator()(Passes& passes) const {
        const index_t *const row_offsets = csr.row_offsets.data(), *const col_indices = csr.col_indices.data();
        const T* const values = csr.values.data();
        T* const inverse = to;
        const bool drops_sign = of_sizes;
        return passes.template reduce_rows<DiagonalFacts, RowSums>(
            csr.rows, row_offsets, csr.nnz, [=] SPMVGPU_BODY(index_t k) { return RowSums(Wide<T>(values[k])); },
            [=] SPMVGPU_BODY(index_t row, const RowSums& sums) {
                const bool is_empty = sums.sizes == 0;
                const T value = entry(row_offsets, col_indices, values, row, row);
                const Real<T> own = real_part(value);
                const Real<T> found = 1 / (drops_sign && own < 0 ? -own : own);
                inverse[row] = is_empty ? T(1) : T(found);
                DiagonalFacts facts;
                facts.empty_rows = is_empty;
                if (is_empty) return facts;
                facts.others = !(value == T(own) && own != 0 && is_finite(own) && is_finite(found) && found != 0);
                facts.negative = facts.others == 0 && own < 0;
                facts.sum = own;
                facts.inverses = found;
                facts.entries = sums.entries;
                facts.scaled = sums.entries * found;
                return facts;
            },
            kNanoseconds);
    }

private:
    static constexpr std::int64_t kNanoseconds = 10;
};

// The largest sum of the sizes of a row's entries, for a square matrix less a multiple of the identity; or a little
// more, as of RowSums.
template <class T>
struct RowNorm {
    using Result = double;
    const CsrMatrix<T>& csr;
    Wide<T> shift;

    template <class Passes>
    Result operator()(Passes& passes) const {
        const index_t *const row_offsets = csr.row_offsets.data(), *const col_indices = csr.col_indices.data();
        const T* const values = csr.values.data();
        const Wide<T> of_diagonal = shift;
        const auto found = passes.template reduce_rows<Largest<double>, RowSums>(
            csr.rows, row_offsets, csr.nnz, [=] SPMVGPU_BODY(index_t k) { return RowSums(Wide<T>(values[k])); },
            [=] SPMVGPU_BODY(index_t row, const RowSums& sums) {
                const Wide<T> own(entry(row_offsets, col_indices, values, row, row));
                return Largest<double>{sums.sizes - RowSums(own).sizes + RowSums(own - of_diagonal).sizes};
            },
            kNanoseconds);
        return found.value;
    }

private:
    static constexpr std::int64_t kNanoseconds = 10;
};

template <class T>
struct Transpose {
    using Result = CsrMatrix<T>;
    const CsrMatrix<T>& csr;

    Result operator()(HostPasses& /*passes*/) const { return transpose(csr); }
    template <class Passes>
    Result operator()(Passes& passes) const {
        return transpose_by_order(passes, csr);
    }
};

template <class T>
struct ReorderByClusters {
    struct Result {
        Array<index_t> order;
        CsrMatrix<T> csr;
    };
    const CsrMatrix<T>& csr;

    template <class Passes>
    Result operator()(Passes& passes) const {
        Array<index_t> order = passes.keep(order_by_clusters(passes, csr));
        passes.finish();  // the matrix may lie where the order was found
        CsrMatrix<T> matrix = reordered(passes, csr, order.data());
        return {std::move(order), std::move(matrix)};
    }
};

// A number of another type. A complex one does not become real.
template <class To, class From>
constexpr To converted_to(From value) {
    using R = Real<To>;
    if constexpr (kIsComplex<From>) {
        return To(static_cast<R>(value.real), static_cast<R>(value.imag));
    } else {
        return To(static_cast<R>(value));
    }
}

template <class From, class To>
struct ConvertValues {
    using Result = Array<To>;
    const Array<From>& values;

    template <class Passes>
    Result operator()(Passes& passes) const {
        const From* const from = values.data();
        Array<To> converted = passes.template make<To>(values.size());
        To* const to = converted.data();
        passes.each(static_cast<std::int64_t>(values.size()),
                    [=] SPMVGPU_BODY(std::int64_t i) { to[i] = converted_to<To>(from[i]); });
        return converted;
    }
};

enum class Scaling { kMultiply, kDivide, kConjugate };

// The values times a number, or divided by it, or their conjugates.
template <class T>
struct ScaleValues {
    using Result = Array<T>;
    const Array<T>& values;
    Scaling how;
    T number;

    template <class Passes>
    Result operator()(Passes& passes) const {
        const T* const from = values.data();
        Array<T> scaled = passes.template make<T>(values.size());
        T* const to = scaled.data();
        const Scaling way = how;
        const T by = number;
        passes.each(static_cast<std::int64_t>(values.size()), [=] SPMVGPU_BODY(std::int64_t i) {
            to[i] = way == Scaling::kMultiply ? from[i] * by
                    : way == Scaling::kDivide ? from[i] / by
                                              : conjugate(from[i]);
        });
        return scaled;
    }
};

template <class T>
struct EntriesBefore {
    using Result = Array<index_t>;
    const CsrMatrix<T>& csr;
    const Array<index_t>&row_order, &col_order;  // empty: the same order

    template <class Passes>
    Result operator()(Passes& passes) const {
        const auto start = [](const Array<index_t>& order) { return order.size() > 0 ? order.data() : nullptr; };
        return entries_before(passes, csr, start(row_order), start(col_order));
    }
};

}  // namespace spmvgpu
