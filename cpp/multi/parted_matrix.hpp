// PartedMatrix<T>: a matrix on one device that is made of parts. A part is A[rows, cols], a matrix of its own in
// whatever format suits it; every row of A belongs to exactly one part, and the entries of a part's rows outside its
// columns must be zero. Parts with different formats are the partitioned matrix of Guo, Huang and Wang 2011 (section
// 5); one part with a permutation for rows, columns or both is a reordered matrix.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/mutex.hpp"
#include "matrix/any_matrix.hpp"
#include "matrix/column_copies.hpp"
#include "matrix/host_vectors.hpp"
#include "matrix/index_map.hpp"
#include "matrix/matrix.hpp"
#include "matrix/permutation.hpp"
#include "matrix/workspaces.hpp"

namespace spmvgpu {

template <class T>
class PartedMatrix : public AnyMatrix<T> {
public:
    struct Part {
        std::shared_ptr<const AnyMatrix<T>> matrix;
        IndexMap rows, cols;
    };

    // Maps may be in host memory; they are brought to the device, an array that several parts share only once. Throws
    // std::invalid_argument for parts on several devices, and for rows in no part or in two.
    PartedMatrix(index_t rows, index_t cols, std::vector<Part> parts);
    // The square matrix that `matrix` stores with rows and columns in another order.
    PartedMatrix(std::shared_ptr<const AnyMatrix<T>> matrix, const Permutation& permutation);

    void spmv(const Product<T>& product, Stream stream) const override;
    // The product of vectors with the parts from `first` to before `last` alone.
    void spmv_parts(std::size_t first, std::size_t last, const Product<T>& product, Stream stream) const;
    void spmv_host(const Product<T>& product) const override;
    bool takes_rows() const override;
    bool can_be_recorded() const override;
    double time_products(const Series& series) const override;

    Device device() const override { return parts_.front().matrix->device(); }
    index_t rows() const override { return rows_; }
    index_t cols() const override { return cols_; }
    std::int64_t nnz() const override;
    std::size_t nbytes() const override;
    SetupSeconds setup_seconds() const override;
    const std::vector<Part>& parts() const { return parts_; }
    // True if it is one matrix in one format, with its rows and columns in whatever order; and if that order is the
    // same for both.
    bool is_reordered() const { return reordered_matrix() != nullptr; }
    bool is_permuted() const;

    // New values of a reordered matrix in CSR order, see Matrix::update_values(). The first call makes a map.
    void update_values(const Array<T>& values);
    std::size_t value_map_bytes() const { return value_map_.bytes(); }  // without maps of its parts

private:
    void check_parts() const;
    void move_maps_to_device();
    void make_workspaces();
    std::size_t nbytes_of_parts() const;
    void multiply_parts(std::size_t first, std::size_t last, const Product<T>& product, T* gathered_x,
                        Stream stream) const;
    Matrix<T>* reordered_matrix() const;
    void find_value_map();
    bool multiply_reordered(Product<T> product, Stream stream) const;
    void multiply_mapped(const Part& part, Product<T> product, Stream stream) const;
    Workspaces& composed_maps() const;

    index_t rows_, cols_;
    std::vector<Part> parts_;
    Array<index_t> value_map_;  // for each entry of a reordered part, the position of its value in CSR order
    mutable std::optional<Workspaces> workspaces_;  // x of parts with scattered columns; made last
    mutable Mutex making_;
    mutable std::unique_ptr<Workspaces> composed_maps_;  // made by the first product with a row_map
    mutable HostVectors<T> host_vectors_;
    mutable ColumnCopies<T> column_copies_;
};

}  // namespace spmvgpu
