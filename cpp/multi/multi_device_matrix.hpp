// MultiDeviceMatrix<T>: one matrix over several GPUs and the CPU's cores (Yang, Li, Mo and Li 2015, section 6). Each
// device has a part of the rows, in a format of its own. Vectors may be in host memory (HostProducts), on one GPU
// (Broadcast), or stay in pieces on all devices (HaloProducts).
#pragma once

#include <memory>
#include <vector>

#include "core/mutex.hpp"
#include "matrix/column_copies.hpp"
#include "multi/broadcast.hpp"
#include "multi/host_products.hpp"
#include "multi/multi_device_vector.hpp"

namespace spmvgpu {

template <class T>
class MultiDeviceMatrix : public AnyMatrix<T> {
public:
    // Throws std::invalid_argument unless the parts hold every row once.
    MultiDeviceMatrix(index_t rows, index_t cols, std::vector<DevicePart<T>> parts);

    // x and y are both in host memory, or both on one GPU, to which the stream then belongs.
    void spmv(const Product<T>& product, Stream stream) const override;
    void spmv_host(const Product<T>& product) const override;
    bool can_be_recorded() const override { return false; }
    // Wall time; with vectors that stay on the devices, if possible.
    double time_products(const Series& series) const override;

    std::unique_ptr<MultiDeviceVector<T>> make_vector() const;
    void multiply(T alpha, MultiDeviceVector<T>& x, T beta, MultiDeviceVector<T>& y) const;
    void synchronize() const;  // waits for the products of vectors in pieces

    Device device() const override;  // the first GPU, or the CPU if there is none
    index_t rows() const override { return rows_; }
    index_t cols() const override { return cols_; }
    std::int64_t nnz() const override;
    std::size_t nbytes() const override;
    SetupSeconds setup_seconds() const override;
    const std::vector<DevicePart<T>>& parts() const { return parts_; }

    // Null if vectors cannot be in pieces on the devices.
    const Halos<T>* halos() const;

    // Number of pieces in which solvers keep vectors: on GPUs only, or on the CPU only; 0 if not at all.
    int solver_pieces() const;

private:
    // Returns the value of `made`, which is made for the first caller; every thread then gets the same one.
    template <class Maker, class Made>
    Made& make_once(std::unique_ptr<Made>& made, Maker&& make) const {
        const std::lock_guard lock(making_);
        if (!made) made = make();
        return *made;
    }
    const Halos<T>& made_halos() const;
    HaloProducts<T>& halo_products() const;

    index_t rows_, cols_;
    std::vector<DevicePart<T>> parts_;  // outlive the members below
    mutable ColumnCopies<T> column_copies_;
    mutable Mutex making_;
    mutable std::unique_ptr<HostProducts<T>> host_products_;
    mutable std::unique_ptr<Broadcast<T>> broadcast_;
    mutable std::unique_ptr<Halos<T>> halos_;
    mutable std::unique_ptr<HaloProducts<T>> halo_products_;
};

}  // namespace spmvgpu
