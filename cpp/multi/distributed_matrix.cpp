#include "multi/distributed_matrix.hpp"

#include <chrono>
#include <stdexcept>

#include "core/errors.hpp"
#include "core/host_vector.hpp"
#include "gpu/runtime.hpp"
#include "gpu/timing.hpp"
#include "matrix/host_vectors.hpp"
#include "multi/parted_matrix.hpp"

namespace spmvgpu {

template <class T>
DistributedMatrix<T>::DistributedMatrix(index_t rows, index_t cols, std::vector<Shard<T>> shards)
    : rows_(rows), cols_(cols), shards_(std::move(shards)) {
    RowCheck every(rows);
    for (const Shard<T>& shard : shards_) {
        shard.matrix->check_spmv();
        check_index_map("rows", shard.rows, shard.matrix->rows(), rows);
        if (shard.matrix->cols() != cols || shard.col_begin < 0 || shard.col_begin > shard.col_end ||
            shard.col_end > cols) {
            throw std::invalid_argument("a part must have all columns of the matrix, and read from some of them");
        }
        const auto* const parted = dynamic_cast<const PartedMatrix<T>*>(shard.matrix.get());
        if (shard.interior_parts > (parted == nullptr ? 0 : parted->parts().size())) {
            throw std::invalid_argument("a part must be made of those that are its interior");
        }
        every.add(shard.rows, shard.matrix->rows());
    }
    every.finish();
}

template <class T>
void DistributedMatrix<T>::spmv(const Product<T>& product, Stream stream) const {
    if (rows_ == 0) return;
    const Device root = device().has_own_memory() ? gpu::device_of(product.y) : Device{};  // x may be empty
    if (!root.has_own_memory()) return spmv_host(product);
    if (!product.is_of_vectors()) {
        return column_copies_.one_by_one(product, {rows_, cols_, nnz()}, root, stream,
                                         [&](const Product<T>& vector) { spmv(vector, stream); });
    }
    make_once(broadcast_, [&] { return std::make_unique<Broadcast<T>>(shards_); }).run(product, root, stream);
}

template <class T>
void DistributedMatrix<T>::spmv_host(const Product<T>& product) const {
    if (!product.is_of_vectors()) return multiply_in_host_memory(*this, product);
    make_once(host_products_, [&] { return std::make_unique<HostProducts<T>>(shards_); }).run(product);
}

template <class T>
void DistributedMatrix<T>::set_x(const T*) {
    throw UnknownOption("a matrix on several devices does not keep gathered values of x, so it has no set_x");
}

template <class T>
const Halos<T>* DistributedMatrix<T>::halos() const {
    return Halos<T>::suits(shards_, rows_, cols_) ? &made_halos() : nullptr;
}

template <class T>
int DistributedMatrix<T>::solver_pieces() const {
    const Halos<T>* const found = halos();
    return found == nullptr || found->has_gpus() == found->has_cpus() ? 0 : static_cast<int>(found->lanes().size());
}

template <class T>
const Halos<T>& DistributedMatrix<T>::made_halos() const {
    return make_once(halos_, [&] { return std::make_unique<Halos<T>>(shards_, rows_, cols_); });
}

template <class T>
HaloProducts<T>& DistributedMatrix<T>::halo_products() const {
    const Halos<T>& halos = made_halos();
    return make_once(halo_products_, [&] { return std::make_unique<HaloProducts<T>>(halos); });
}

template <class T>
std::unique_ptr<DistributedVector<T>> DistributedMatrix<T>::make_vector() const {
    return halo_products().make_vector();
}

template <class T>
void DistributedMatrix<T>::multiply(T alpha, DistributedVector<T>& x, T beta, DistributedVector<T>& y) const {
    halo_products().run(alpha, x, beta, y);
}

template <class T>
void DistributedMatrix<T>::synchronize() const {
    halo_products().synchronize();
}

template <class T>
double DistributedMatrix<T>::time_products(const Series& series) const {
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
Device DistributedMatrix<T>::device() const {
    for (const Shard<T>& shard : shards_) {
        if (shard.device().is_gpu()) return shard.device();
    }
    return {};
}

template <class T>
std::int64_t DistributedMatrix<T>::nnz() const {
    std::int64_t nnz = 0;
    for (const Shard<T>& shard : shards_) nnz += shard.matrix->nnz();
    return nnz;
}

template <class T>
std::size_t DistributedMatrix<T>::nbytes() const {
    std::size_t bytes = 0;
    for (const Shard<T>& shard : shards_) bytes += shard.matrix->nbytes();
    const std::lock_guard lock(making_);
    return bytes + (host_products_ ? host_products_->nbytes() : 0) + (broadcast_ ? broadcast_->nbytes() : 0) +
           column_copies_.nbytes();
}

template <class T>
SetupSeconds DistributedMatrix<T>::setup_seconds() const {
    SetupSeconds sum;
    for (const Shard<T>& shard : shards_) {
        sum.convert += shard.matrix->setup_seconds().convert;
        sum.transfer += shard.matrix->setup_seconds().transfer;
    }
    return sum;
}

#define INSTANTIATE(T) template class DistributedMatrix<T>;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
