// CsrSource<T>: a canonical matrix in CSR on one device, from which matrices in other formats are made there. It
// crosses the bus once, however many plans and trials follow.
#pragma once

#include <optional>
#include <vector>

#include "core/csr_matrix.hpp"
#include "matrix/permutation.hpp"

namespace spmvgpu {

struct ColumnReach;
struct DiagonalFacts;
enum class Scaling;

// The matrix in memory of the library's own on a device. All of it is asked for at once beforehand. Throws OutOfMemory.
template <class T>
CsrMatrix<T> copy_to(const CsrMatrix<T>& csr, Device device);

// Copies of the rows of canonical matrices on one device with as many columns, one matrix after the other. Throws
// std::invalid_argument for none, for others, and for too many entries.
template <class T>
CsrMatrix<T> stacked(const std::vector<CsrMatrix<T>>& parts);

// The sum on a device of the rows from `begin` to before `end` of canonical matrices of one shape on any devices.
template <class T>
CsrMatrix<T> sum_of_rows(const std::vector<CsrMatrix<T>>& parts, index_t begin, index_t end, Device device);

template <class T>
class CsrSource {
public:
    // The matrix is canonical, in host memory or already on the device.
    CsrSource(const CsrMatrix<T>& csr, Device device);
    // Uses the given arrays themselves, without a copy. If they are windows, the caller keeps them alive.
    explicit CsrSource(const CsrMatrix<T>& csr) : device_(csr.row_offsets.device()), csr_(csr) {}
    CsrSource(const CsrSource&) = delete;
    CsrSource& operator=(const CsrSource&) = delete;

    Device device() const { return device_; }
    const CsrMatrix<T>& csr() const { return csr_; }

    CsrMatrix<T> to_host() const;
    // Other values in the same places, which lie in host memory or on the device and are copied. Throws
    // std::invalid_argument if they are too few or too many.
    CsrMatrix<T> with_values(const Array<T>& values) const;
    // The values of another canonical matrix, on any device, in the places of this one; zero where that has no entry.
    // None, if it has an entry where this one has none.
    std::optional<CsrMatrix<T>> with_values_of(const CsrMatrix<T>& other) const;
    // The matrix with values of another type, on the device; see SPMVGPU_FOR_CONVERSIONS.
    template <class To>
    CsrMatrix<To> as() const;
    // The matrix with all values times a number, or divided by it, or conjugated, on the device. A real number does so
    // with each part of a complex value, so that an infinite part leaves the other one alone.
    CsrMatrix<T> scaled(Scaling how, T number = {}) const;
    CsrMatrix<T> transposed() const;  // on the device
    // The rows from `begin` to before `end`, as windows on the entries of the matrix.
    CsrMatrix<T> rows(index_t begin, index_t end) const;
    // Copies on the device: the listed rows; the columns from `begin` to before `end`. Column `begin` becomes column 0.
    // Columns beyond the matrix are empty.
    CsrMatrix<T> rows(const Array<index_t>& listed) const;
    CsrMatrix<T> columns(index_t begin, index_t end) const;
    // The listed rows on a device, in a matrix with `cols` columns, where the first column of this one is `first`.
    CsrMatrix<T> shared_rows(const Array<index_t>& listed, index_t first, index_t cols, Device device) const;
    // The other columns, with their numbers.
    CsrMatrix<T> outside(index_t begin, index_t end) const;
    CsrMatrix<T> without_zeros() const;  // without entries that are zero, on the device
    // The sum with another canonical matrix on this device, where the columns of this one begin at column `first` of
    // the other. Throws std::invalid_argument if that has other rows or too few columns, or the sum may have too many
    // entries.
    CsrMatrix<T> plus(const CsrMatrix<T>& other, index_t first = 0) const;
    // The inverses of the entries (i, i + shift), on the device; see PositiveInverses.
    Array<T> positive_inverses(index_t shift) const;
    ColumnReach column_reach() const;
    Array<T> diagonal(std::int64_t shift) const;  // entries (i, i + shift), in host memory
    // The inverses of the diagonal entries, or of their absolute values, in an array on the device; see InvertDiagonal.
    DiagonalFacts invert_diagonal(bool of_sizes, T* to) const;

    // An order of rows and columns by clusters, see core/passes/clusters.hpp, and the matrix in it, both on the device.
    // Throws std::invalid_argument for a matrix that is not square, and for one with a row so long that finding the
    // order of its entries would take too long.
    struct Reordered {
        Permutation permutation;
        CsrMatrix<T> csr;
    };
    Reordered by_clusters() const;
    static constexpr index_t kLongestInClusters = 4096;

    // The potential of such an order for a square matrix to bring neighbours together, as a fraction; see
    // core/passes/clusters.hpp.
    double clustering() const;

    // Every step-th of the row offsets and of the column indices, in host memory, to identify the matrix.
    struct Sample {
        Array<index_t> row_offsets, col_indices;
    };
    Sample sample(std::int64_t row_step, std::int64_t entry_step) const;

private:
    Device device_;
    CsrMatrix<T> csr_;
};

}  // namespace spmvgpu
