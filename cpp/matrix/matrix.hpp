// Matrix<T>: one sparse matrix in one format on one device, behind a single type. It holds the result of convert() and
// launches products, and knows no format by name.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/mutex.hpp"
#include "matrix/any_matrix.hpp"
#include "matrix/column_copies.hpp"
#include "matrix/conversion.hpp"
#include "matrix/declared_x.hpp"
#include "matrix/host_vectors.hpp"
#include "matrix/value_updates.hpp"
#include "matrix/workspaces.hpp"

namespace spmvgpu {

template <class T>
class Matrix : public AnyMatrix<T> {
public:
    // See convert().
    Matrix(const CsrMatrix<T>& csr, const std::string& format, const Options& options, Device device,
           Builders builders = Builders::kOfDevice, const MatrixPlan* planned = nullptr);

    void spmv(const Product<T>& product, Stream stream) const override;
    void check_spmv() const override;
    void spmv_host(const Product<T>& product) const override;
    bool takes_rows() const override;
    bool panels_are_worth_copies(index_t vectors) const override;

    // Declares that products with this very x follow, unchanged: a format that gathers x then does so once per stream,
    // until the next call; nullptr ends it.
    void set_x(const T* x) { declared_x_.declare(x); }

    double time_products(const Series& series) const override;

    CsrMatrix<T> to_csr() const;  // in host memory
    // On the device, with values of its own, unless those that are stored may be lent.
    CsrMatrix<T> csr_there(bool may_lend = false) const;

    // Replaces the values by others in CSR order, which lie in host memory or on the device; the result is as if it had
    // been built with them. Returns once that is done, and waits for everything on the device before. No product may be
    // running elsewhere. The first call may keep a map, see value_map_bytes(). Arrays may lie elsewhere afterwards.
    // Throws std::invalid_argument if the values are too few or too many or lie elsewhere, FormatError if the format
    // does not hold them, OutOfMemory or CudaError; the values are unchanged then, except after an error of the device.
    void update_values(const Array<T>& values);
    std::size_t value_map_bytes() const;  // bytes of the map from CSR order

    // A matrix for products that differs in its values, which lie in CSR order on the device in memory that the caller
    // keeps. It shares the arrays and the scratch memory. None if the format stores values in another order.
    static std::shared_ptr<Matrix> with_values(const std::shared_ptr<const Matrix>& matrix, const T* values);

    std::string format() const;
    Device device() const override { return device_; }
    index_t rows() const override;
    index_t cols() const override;
    std::int64_t nnz() const override;
    std::size_t nbytes() const override;
    std::vector<OptionInfo> options() const;       // in force, with automatic choices resolved
    std::map<std::string, double> counts() const;  // see counts_of()
    SetupSeconds setup_seconds() const override { return stored_.took; }
    index_t longest_row() const { return stored_.longest_row; }
    // Parts of inner products that its products on a GPU leave at Product::dots; 0 if they do not.
    index_t dot_parts() const;
    AnyFormat<T> storage() const;  // which shares the arrays

private:
    Matrix(std::shared_ptr<const Matrix> of, AnyFormat<T> format);
    const Matrix& owner_of_scratch() const { return of_ == nullptr ? *this : *of_; }
    MatrixSize size() const { return {rows(), cols(), nnz()}; }
    const Traits& traits() const;
    bool gathers_on_host() const;
    // One vector, or columns that the format multiplies at once; x_version is the number of x's declaration, or 0.
    void multiply(Product<T> product, Stream stream, std::uint64_t x_version) const;

    Device device_;
    Options options_;  // as given by the caller
    FormatMatrix<T> stored_;
    std::uint64_t policy_ = 0;  // cache policy of loads on a GPU

    mutable Mutex values_mutex_;  // protects update_values() and the data that it changes, except for products
    ValueUpdates<T> new_values_;

    const std::shared_ptr<const Matrix> of_;  // the matrix whose arrays and scratch memory this one uses
    DeclaredX<T> declared_x_;
    mutable ColumnCopies<T> column_copies_;
    mutable HostVectors<T> host_vectors_;
    mutable std::optional<Workspaces> workspaces_;  // made last by the constructor
};

}  // namespace spmvgpu
