// LinearMap<T>: a linear map of a solver, a matrix or a preconditioner, on the device of the vectors.
#pragma once

#include <cstddef>
#include <memory>
#include <stdexcept>

#include "matrix/matrix.hpp"
#include "multi/multi_device_matrix.hpp"
#include "multi/parted_matrix.hpp"

namespace spmvgpu {

// The product of several vectors that lie one after the other on the device of the matrix.
template <class T>
void multiply_columns(const AnyMatrix<T>& matrix, Product<T> product, index_t columns, Stream stream) {
    if (columns == 1) return matrix.spmv(product, stream);
    product.columns = columns;
    product.x_strides = {1, matrix.cols()};
    product.y_strides = {1, matrix.rows()};
    matrix.device().is_gpu() ? matrix.spmv(product, stream) : matrix.spmv_host(product);
}

template <class T>
class LinearMap {
public:
    virtual ~LinearMap() = default;

    // y = A x. On a GPU it is queued on the stream; x and y do not overlap.
    virtual void apply(const T* x, T* y, Stream stream) const = 0;

    // apply() for several vectors of length n that lie one after the other.
    virtual void apply_columns(const T* x, T* y, index_t n, index_t columns, Stream stream) const {
        for (std::ptrdiff_t j = 0; j < columns; ++j) apply(x + j * n, y + j * n, stream);
    }

    // On a GPU apply() may leave pairs of x.y and y.Wy at `dots`; this is the number of pairs, 0 if it does not. A null
    // W is ones.
    virtual index_t dot_parts() const { return 0; }
    virtual void apply_and_dot(const T* /*x*/, T* /*y*/, const T* /*w*/, Wide<T>* /*dots*/, Stream) const {
        throw std::logic_error("this map has no inner products");
    }
    // The pairs that it leaves for a piece of the vectors, in memory for dot_parts() pairs.
    virtual DotsLeft dots_left(int /*piece*/) const { return {dot_parts(), {}}; }

    // A diagonal map returns its diagonal, because solvers multiply by it within sweeps.
    virtual const T* diagonal() const { return nullptr; }

    // A map that is one matrix in one format returns it, because a kernel may read its rows itself.
    virtual const Matrix<T>* matrix() const { return nullptr; }

    // A map that is one matrix over several devices returns it, because they may keep the vectors in pieces.
    virtual const MultiDeviceMatrix<T>* multi_device() const { return nullptr; }

    // A map that is a matrix made of parts returns it, because its parts may be stored in another order than the
    // vectors.
    virtual const PartedMatrix<T>* parts() const { return nullptr; }

    // True if the work of apply() may be recorded in a CUDA graph.
    virtual bool can_be_recorded() const { return true; }
};

template <class T>
class MatrixMap : public LinearMap<T> {
public:
    explicit MatrixMap(std::shared_ptr<const AnyMatrix<T>> matrix) : matrix_(std::move(matrix)) {}

    void apply(const T* x, T* y, Stream stream) const override { matrix_->spmv({x, y}, stream); }
    void apply_columns(const T* x, T* y, index_t, index_t columns, Stream stream) const override {
        multiply_columns(*matrix_, {x, y}, columns, stream);
    }
    index_t dot_parts() const override {
        const bool is_square = matrix_->rows() == matrix_->cols();
        return is_square && matrix() != nullptr ? matrix()->dot_parts() : 0;
    }
    void apply_and_dot(const T* x, T* y, const T* w, Wide<T>* dots, Stream stream) const override {
        Product<T> product{x, y};
        product.dots = dots;
        product.weights = w;
        product.x_of_rows = x;
        matrix_->spmv(product, stream);
    }
    const Matrix<T>* matrix() const override { return dynamic_cast<const Matrix<T>*>(matrix_.get()); }
    const MultiDeviceMatrix<T>* multi_device() const override {
        return dynamic_cast<const MultiDeviceMatrix<T>*>(matrix_.get());
    }
    const PartedMatrix<T>* parts() const override { return dynamic_cast<const PartedMatrix<T>*>(matrix_.get()); }
    bool can_be_recorded() const override { return matrix_->can_be_recorded(); }

private:
    std::shared_ptr<const AnyMatrix<T>> matrix_;
};

// A map of all columns of several right-hand sides at once.
template <class T>
class ColumnsMap : public LinearMap<T> {
public:
    ColumnsMap(const LinearMap<T>& of_one, index_t n, index_t columns) : of_one_(of_one), n_(n), columns_(columns) {}

    void apply(const T* x, T* y, Stream stream) const override { of_one_.apply_columns(x, y, n_, columns_, stream); }
    const T* diagonal() const override { return of_one_.diagonal(); }
    const Matrix<T>* matrix() const override { return of_one_.matrix(); }
    bool can_be_recorded() const override { return of_one_.can_be_recorded(); }

private:
    const LinearMap<T>& of_one_;
    index_t n_, columns_;
};

template <class T>
class DiagonalMap : public LinearMap<T> {
public:
    // An empty diagonal need not have an address; a rank without elements must still take the same branches as the
    // others.
    explicit DiagonalMap(const T* diagonal) : diagonal_(diagonal == nullptr ? &kNone : diagonal) {}

    void apply(const T*, T*, Stream) const override { throw std::logic_error("a diagonal is multiplied in passing"); }
    const T* diagonal() const override { return diagonal_; }

private:
    static constexpr T kNone{};
    const T* diagonal_;
};

}  // namespace spmvgpu
