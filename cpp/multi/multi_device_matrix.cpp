#include "multi/multi_device_matrix.hpp"

#include <chrono>
#include <stdexcept>

#include "core/host_vector.hpp"
#include "gpu/runtime.hpp"
#include "gpu/stream.hpp"
#include "gpu/timing.hpp"
#include "matrix/host_vectors.hpp"
#include "multi/parted_matrix.hpp"

namespace spmvgpu {

template <class T>
MultiDeviceMatrix<T>::MultiDeviceMatrix(index_t rows, index_t cols, std::vector<DevicePart<T>> parts)
    : rows_(rows), cols_(cols), parts_(std::move(parts)) {
    RowCheck every(rows);
    for (const DevicePart<T>& part : parts_) {
        part.matrix->check_spmv();
        check_index_map("rows", part.rows, part.matrix->rows(), rows);
        if (part.matrix->cols() != cols || part.col_begin < 0 || part.col_begin > part.col_end || part.col_end > cols) {
            throw std::invalid_argument("a part must have all columns of the matrix, and read from some of them");
        }
        const auto* const parted = dynamic_cast<const PartedMatrix<T>*>(part.matrix.get());
        if (part.interior_parts > (parted == nullptr ? 0 : parted->parts().size())) {
            throw std::invalid_argument("a part must be made of those that are its interior");
        }
        every.add(part.rows, part.matrix->rows());
        for (const DevicePart<T>& other : parts_) gpu::allow_copies(part.device(), other.device());
    }
    every.finish();
}

template <class T>
void MultiDeviceMatrix<T>::spmv(const Product<T>& product, Stream stream) const {
    if (rows_ == 0) return;
    const Device root = device().has_own_memory() ? gpu::device_of(product.y) : Device{};  // x may be empty
    if (!root.has_own_memory()) return spmv_host(product);
    if (!product.is_of_vectors()) {
        return column_copies_.one_by_one(product, {rows_, cols_, nnz()}, root, stream,
                                         [&](const Product<T>& vector) { spmv(vector, stream); });
    }
    make_once(broadcast_, [&] { return std::make_unique<Broadcast<T>>(parts_); }).run(product, root, stream);
}

template <class T>
void MultiDeviceMatrix<T>::spmv_host(const Product<T>& product) const {
    if (!product.is_of_vectors()) return multiply_in_host_memory(*this, product);
    make_once(host_products_, [&] { return std::make_unique<HostProducts<T>>(parts_); }).run(product);
}

template <class T>
const Halos<T>* MultiDeviceMatrix<T>::halos() const {
    return Halos<T>::suits(parts_, rows_, cols_) ? &made_halos() : nullptr;
}

template <class T>
int MultiDeviceMatrix<T>::solver_pieces() const {
    const Halos<T>* const found = halos();
    return found == nullptr || found->has_gpus() == found->has_cpus() ? 0 : static_cast<int>(found->lanes().size());
}

template <class T>
const Halos<T>& MultiDeviceMatrix<T>::made_halos() const {
    return make_once(halos_, [&] { return std::make_unique<Halos<T>>(parts_, rows_, cols_); });
}

template <class T>
HaloProducts<T>& MultiDeviceMatrix<T>::halo_products() const {
    const Halos<T>& halos = made_halos();
    return make_once(halo_products_, [&] { return std::make_unique<HaloProducts<T>>(halos); });
}

template <class T>
std::unique_ptr<MultiDeviceVector<T>> MultiDeviceMatrix<T>::make_vector() const {
    return halo_products().make_vector();
}

template <class T>
void MultiDeviceMatrix<T>::multiply(T alpha, MultiDeviceVector<T>& x, T beta, MultiDeviceVector<T>& y) const {
    halo_products().run(alpha, x, beta, y);
}

template <class T>
void MultiDeviceMatrix<T>::synchronize() const {
    halo_products().synchronize();
}

template <class T>
double MultiDeviceMatrix<T>::time_products(const Series& series) const {
    const int products = series.batch * series.repeats;
    const HostVector<T> ones(cols_, T(1));
    if (halos() == nullptr) {
        HostVector<T> y(rows_);
        return time_launches([&](Stream) { spmv_host({ones.data(), y.data()}); }, {1, 0, products}, {});
    }
    const auto x = make_vector(), y = make_vector();
    x->assign(ones.data());
    const auto in_a_row = [&](Stream) {
        for (int i = 0; i < products; ++i) multiply(T(1), *x, T(0), *y);
        synchronize();
    };
    return time_launches(in_a_row, {1, 0, 3}, {}) / products;
}

template <class T>
Device MultiDeviceMatrix<T>::device() const {
    for (const DevicePart<T>& part : parts_) {
        if (part.device().is_gpu()) return part.device();
    }
    return {};
}

template <class T>
std::int64_t MultiDeviceMatrix<T>::nnz() const {
    std::int64_t nnz = 0;
    for (const DevicePart<T>& part : parts_) nnz += part.matrix->nnz();
    return nnz;
}

template <class T>
std::size_t MultiDeviceMatrix<T>::nbytes() const {
    std::size_t bytes = 0;
    for (const DevicePart<T>& part : parts_) bytes += part.matrix->nbytes();
    const std::lock_guard lock(making_);
    return bytes + (host_products_ ? host_products_->nbytes() : 0) + (broadcast_ ? broadcast_->nbytes() : 0) +
           column_copies_.nbytes();
}

template <class T>
SetupSeconds MultiDeviceMatrix<T>::setup_seconds() const {
    SetupSeconds sum;
    for (const DevicePart<T>& part : parts_) {
        sum.convert += part.matrix->setup_seconds().convert;
        sum.transfer += part.matrix->setup_seconds().transfer;
    }
    return sum;
}

#define INSTANTIATE(T) template class MultiDeviceMatrix<T>;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
