// LinearMap<T>: what solvers multiply vectors by, a matrix or a preconditioner, on the device where the vectors are.
#pragma once

#include <cstddef>
#include <memory>

#include "matrix/matrix.hpp"

namespace spmvgpu {

template <class T>
class LinearMap {
public:
    virtual ~LinearMap() = default;

    // y = A x. On a GPU it is queued on the stream; x and y do not overlap.
    virtual void apply(const T* x, T* y, Stream stream) const = 0;

    // A map that is a diagonal says so, for solvers multiply by it as they go.
    virtual const T* diagonal() const { return nullptr; }

    // A map that is one matrix in one format says so, for a kernel may read its rows itself.
    virtual const Matrix<T>* matrix() const { return nullptr; }

    // Whether what apply() queues may be recorded in a CUDA graph.
    virtual bool can_be_recorded() const { return true; }
};

template <class T>
class MatrixMap : public LinearMap<T> {
public:
    explicit MatrixMap(std::shared_ptr<const AnyMatrix<T>> matrix) : matrix_(std::move(matrix)) {}

    void apply(const T* x, T* y, Stream stream) const override { matrix_->spmv({x, y}, stream); }
    const Matrix<T>* matrix() const override { return dynamic_cast<const Matrix<T>*>(matrix_.get()); }
    bool can_be_recorded() const override { return matrix_->can_be_recorded(); }

private:
    std::shared_ptr<const AnyMatrix<T>> matrix_;
};

}  // namespace spmvgpu
