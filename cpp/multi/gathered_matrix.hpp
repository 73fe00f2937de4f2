// GatheredMatrix<T>: rows of a matrix over the GPUs of several processes, of whose products every rank gets all
// elements.
#pragma once

#include <memory>
#include <vector>

#include "core/array.hpp"
#include "gpu/nccl.hpp"
#include "matrix/any_matrix.hpp"

namespace spmvgpu {

template <class T>
class GatheredMatrix : public AnyMatrix<T> {
public:
    // `own` has the rows of this rank, and `counts` says how many each rank has. Throws std::invalid_argument if these
    // do not fit together.
    GatheredMatrix(std::shared_ptr<const gpu::NcclCommunicator> ranks, std::shared_ptr<const AnyMatrix<T>> own,
                   std::vector<index_t> counts);

    // For y = A x alone. One product at a time.
    void spmv(const Product<T>& product, Stream stream) const override;

    void spmv_host(const Product<T>&) const override { refuse(); }
    double time_products(const Series&) const override { refuse(); }
    bool can_be_recorded() const override { return own_->can_be_recorded(); }
    Device device() const override { return own_->device(); }
    index_t rows() const override { return rows_; }
    index_t cols() const override { return own_->cols(); }
    std::int64_t nnz() const override { return own_->nnz(); }
    std::size_t nbytes() const override { return own_->nbytes() + part_.bytes() + parts_.bytes(); }
    SetupSeconds setup_seconds() const override { return {}; }

private:
    [[noreturn]] static void refuse();

    std::shared_ptr<const gpu::NcclCommunicator> ranks_;
    std::shared_ptr<const AnyMatrix<T>> own_;
    std::vector<index_t> counts_;
    index_t rows_ = 0, longest_ = 0;
    // The part of y of this rank, and the parts of all ranks. Each part has room for the longest one.
    mutable Array<T> part_, parts_;
};

}  // namespace spmvgpu
