// CsrSource<T>: a canonical matrix in CSR on one device, of which matrices in other formats are made there. It crosses
// the bus once, whatever is planned and tried then.
#pragma once

#include <optional>

#include "core/csr_matrix.hpp"
#include "matrix/permutation.hpp"

namespace spmvgpu {

struct Signs;

// The matrix in memory of the library's own on a device. All of it is asked for at once beforehand. Throws OutOfMemory.
template <class T>
CsrMatrix<T> copy_to(const CsrMatrix<T>& csr, Device device);

template <class T>
class CsrSource {
public:
    // Of a matrix that is canonical, and in host memory or on the device already.
    CsrSource(const CsrMatrix<T>& csr, Device device);
    // Of the given arrays themselves, without a copy. If they are windows, somebody else keeps them alive.
    explicit CsrSource(const CsrMatrix<T>& csr) : device_(csr.row_offsets.device()), csr_(csr) {}
    CsrSource(const CsrSource&) = delete;
    CsrSource& operator=(const CsrSource&) = delete;

    Device device() const { return device_; }
    const CsrMatrix<T>& csr() const { return csr_; }

    // Whether the arrays are what a source is to be made of: for one that is made of arrays which nobody has checked,
    // before anything else is asked of it.
    bool is_canonical() const;

    CsrMatrix<T> to_host() const;
    // Other values in the same places, which lie in host memory or on the device and are copied. Throws
    // std::invalid_argument if they are too few or too many.
    CsrMatrix<T> with_values(const Array<T>& values) const;
    // The values of another canonical matrix, on any device, in the places of this one; zero where that has no entry.
    // Nothing, if it has one where this one has none.
    std::optional<CsrMatrix<T>> with_values_of(const CsrMatrix<T>& other) const;
    // The same matrix with values of another type, on the device; see SPMVGPU_FOR_CONVERSIONS.
    template <class To>
    CsrMatrix<To> as() const;
    CsrMatrix<T> transposed() const;              // on the device
    Array<T> diagonal(std::int64_t shift) const;  // entries (i, i + shift), in host memory
    // The inverses of the entries on the diagonal, or of their sizes, to an array on the device; see InvertDiagonal.
    Signs invert_diagonal(bool of_sizes, T* to) const;

    // An order of rows and columns by clusters, see core/passes/clusters.hpp, and the matrix in it, both on the device.
    // Throws std::invalid_argument for a matrix that is not square, and for one with a row so long that finding the
    // order of its entries would take too long.
    struct Reordered {
        Permutation permutation;
        CsrMatrix<T> csr;
    };
    Reordered by_clusters() const;
    static constexpr index_t kLongestInClusters = 4096;

    // Of a square matrix: whether such an order may bring neighbours together, as a fraction; see there.
    double clustering() const;

    // Every step-th of the row offsets and of the column indices, in host memory: what tells the matrix from others.
    struct Sample {
        Array<index_t> row_offsets, col_indices;
    };
    Sample sample(std::int64_t row_step, std::int64_t entry_step) const;

private:
    Device device_;
    CsrMatrix<T> csr_;
};

}  // namespace spmvgpu
