#include "multi/parted_matrix.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <string>

#include "core/passes/csr_operations.hpp"
#include "gpu/gather.hpp"
#include "gpu/run.hpp"
#include "gpu/runtime.hpp"
#include "gpu/stream.hpp"
#include "matrix/csr_source.hpp"

namespace spmvgpu {

namespace {

template <class T>
std::size_t scratch_bytes(const std::vector<typename PartedMatrix<T>::Part>& parts) {
    std::size_t longest = 0;
    for (const auto& part : parts) longest = std::max(longest, part.cols.indices.size());
    return longest * sizeof(T);
}

}  // namespace

template <class T>
PartedMatrix<T>::PartedMatrix(index_t rows, index_t cols, std::vector<Part> parts)
    : rows_(rows), cols_(cols), parts_(std::move(parts)) {
    check_parts();
    move_maps_to_device();
    make_workspaces();
}

template <class T>
PartedMatrix<T>::PartedMatrix(std::shared_ptr<const AnyMatrix<T>> matrix, const Permutation& permutation)
    : rows_(matrix->rows()), cols_(matrix->cols()) {
    if (rows_ != cols_ || permutation.rows.size() != static_cast<std::size_t>(rows_)) {
        throw std::invalid_argument("a permutation of " + std::to_string(permutation.rows.size()) +
                                    " rows and columns, and " + std::to_string(rows_) + " x " + std::to_string(cols_) +
                                    " of the matrix");
    }
    matrix->check_spmv();
    const IndexMap map{0, permutation.rows};
    parts_.push_back({std::move(matrix), map, map});
    move_maps_to_device();
    make_workspaces();
}

template <class T>
void PartedMatrix<T>::make_workspaces() {
    workspaces_.emplace(scratch_bytes<T>(parts_), device(), nbytes_of_parts(), /*zeroed=*/false);
}

template <class T>
void PartedMatrix<T>::check_parts() const {
    if (parts_.empty()) throw std::invalid_argument("a matrix of parts needs one at least");
    RowCheck every(rows_);
    for (const Part& part : parts_) {
        part.matrix->check_spmv();
        if (part.matrix->device() != device()) {
            throw std::invalid_argument("parts on " + device().name() + " and on " + part.matrix->device().name());
        }
        check_index_map("rows", part.rows, part.matrix->rows(), rows_);
        const bool is_known = part.cols.scattered() && part.cols.indices.data() == part.rows.indices.data();
        if (!is_known || rows_ != cols_) check_index_map("columns", part.cols, part.matrix->cols(), cols_);
        every.add(part.rows, part.matrix->rows());
    }
    every.finish();
}

template <class T>
void PartedMatrix<T>::move_maps_to_device() {
    std::map<const index_t*, Array<index_t>> moved;
    for (Part& part : parts_) {
        for (Array<index_t>* map : {&part.rows.indices, &part.cols.indices}) {
            if (map->size() == 0) continue;
            const auto [found, is_new] = moved.try_emplace(map->data());
            if (is_new) found->second = map->to(device());
            *map = found->second;
        }
    }
}

template <class T>
void PartedMatrix<T>::spmv(const Product<T>& product, Stream stream) const {
    const bool gathers_x = is_reordered() && parts_.front().cols.scattered();
    if (!product.is_of_vectors() && (gathers_x || !takes_rows())) {
        if (takes_rows() && product.row_map == nullptr && multiply_reordered(product, stream)) return;
        return column_copies_.one_by_one(product, {rows_, cols_, nnz()}, device(), stream,
                                         [&](const Product<T>& vector) { spmv(vector, stream); });
    }
    spmv_parts(0, parts_.size(), product, stream);
}

template <class T>
void PartedMatrix<T>::spmv_parts(std::size_t first, std::size_t last, const Product<T>& product, Stream stream) const {
    Workspaces::Space* const space = workspaces_->of(stream);
    if (space == nullptr) return multiply_parts(first, last, product, nullptr, stream);
    const std::lock_guard turn(space->in_use);
    multiply_parts(first, last, product, reinterpret_cast<T*>(space->memory.data()), stream);
}

template <class T>
void PartedMatrix<T>::multiply_parts(std::size_t first, std::size_t last, const Product<T>& product, T* gathered_x,
                                     Stream stream) const {
    const index_t* gathered_map = nullptr;  // parts that share a map share the gathered values
    for (std::size_t k = first; k < last; ++k) {
        const Part& part = parts_[k];
        Product<T> own =
            product.from(part.rows.scattered() ? 0 : part.rows.first, part.cols.scattered() ? 0 : part.cols.first);
        if (part.cols.scattered()) {
            if (part.cols.indices.data() != gathered_map) {
                gpu::gather(gathered_x, product.x, part.cols.indices, stream);
            }
            gathered_map = part.cols.indices.data();
            own.x = gathered_x;
        }
        if (part.rows.scattered()) {
            multiply_mapped(part, own, stream);
        } else {
            part.matrix->spmv(own, stream);
        }
    }
}

// Multiplies several columns of a matrix in another order: rows of x are copied in that order. False if there is no
// memory for it.
template <class T>
bool PartedMatrix<T>::multiply_reordered(Product<T> product, Stream stream) const {
    const Part& part = parts_.front();
    if (part.rows.scattered()) product.row_map = part.rows.indices.data();
    return column_copies_.permuted(product, {rows_, cols_, nnz()}, part.cols.indices.data(), device(), stream,
                                   [&](const Product<T>& columns) { part.matrix->spmv(columns, stream); });
}

// Composes a part's map with the caller's: a row of the part lies where the caller's map, if there is one, has the row
// of the part's map.
template <class T>
void PartedMatrix<T>::multiply_mapped(const Part& part, Product<T> product, Stream stream) const {
    if (product.row_map == nullptr) {
        product.row_map = part.rows.indices.data();
        return part.matrix->spmv(product, stream);
    }
    Workspaces::Space* const space = composed_maps().of(stream);
    const std::lock_guard turn(space->in_use);
    auto* const composed = reinterpret_cast<index_t*>(space->memory.data());
    gpu::gather(composed, product.row_map, part.rows.indices, stream);
    product.row_map = composed;
    part.matrix->spmv(product, stream);
}

template <class T>
Workspaces& PartedMatrix<T>::composed_maps() const {
    const std::lock_guard lock(making_);
    if (!composed_maps_) {
        std::size_t longest = 0;
        for (const Part& part : parts_) longest = std::max(longest, part.rows.indices.bytes());
        composed_maps_ = std::make_unique<Workspaces>(longest, device(), nbytes_of_parts(), /*zeroed=*/false);
    }
    return *composed_maps_;
}

template <class T>
void PartedMatrix<T>::spmv_host(const Product<T>& product) const {
    host_vectors_.run(*this, product);
}

// The values of x that are gathered for one of several parts are one vector.
template <class T>
bool PartedMatrix<T>::takes_rows() const {
    return device().is_gpu() && std::all_of(parts_.begin(), parts_.end(), [this](const Part& part) {
               return part.matrix->takes_rows() && (!part.cols.scattered() || is_reordered());
           });
}

template <class T>
bool PartedMatrix<T>::can_be_recorded() const {
    return std::all_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.matrix->can_be_recorded(); });
}

template <class T>
double PartedMatrix<T>::time_products(const Series& series) const {
    Array<T> x(cols_, device()), y(rows_, device());
    set_zero(x.data(), device(), x.bytes());
    return workspaces_->time_launches([&](Stream stream) { spmv({x.data(), y.data()}, stream); }, series);
}

template <class T>
std::int64_t PartedMatrix<T>::nnz() const {
    std::int64_t nnz = 0;
    for (const Part& part : parts_) nnz += part.matrix->nnz();
    return nnz;
}

template <class T>
std::size_t PartedMatrix<T>::nbytes_of_parts() const {
    std::size_t bytes = 0;
    std::set<const index_t*> counted;  // maps may be shared
    for (const Part& part : parts_) {
        bytes += part.matrix->nbytes();
        for (const Array<index_t>* map : {&part.rows.indices, &part.cols.indices}) {
            if (counted.insert(map->data()).second) bytes += map->bytes();
        }
    }
    return bytes;
}

template <class T>
bool PartedMatrix<T>::is_permuted() const {
    const Part& part = parts_.front();
    return is_reordered() && part.rows.scattered() && part.rows.indices.data() == part.cols.indices.data();
}

template <class T>
Matrix<T>* PartedMatrix<T>::reordered_matrix() const {
    if (parts_.size() != 1) return nullptr;
    return const_cast<Matrix<T>*>(dynamic_cast<const Matrix<T>*>(parts_.front().matrix.get()));
}

// The part's pattern is read in host memory, where every format can give it, and sorted on the device.
template <class T>
void PartedMatrix<T>::find_value_map() {
    if (value_map_.size() > 0) return;
    CsrMatrix<T> csr = reordered_matrix()->to_csr();
    csr.values = {};
    const CsrMatrix<T> there = copy_to(csr, device());
    const Part& part = parts_.front();
    value_map_ = gpu::run(EntriesBefore<T>{there, part.rows.indices, part.cols.indices}, device());
}

template <class T>
void PartedMatrix<T>::update_values(const Array<T>& values) {
    if (!is_reordered() || static_cast<std::int64_t>(values.size()) != nnz()) {
        throw std::invalid_argument("a matrix of parts that takes no new values, or not as many");
    }
    find_value_map();
    const Array<T> given = values.to(device());
    Array<T> own(value_map_.size(), device());
    gpu::synchronize_device(device());
    const std::shared_ptr<void> stream = gpu::lease_stream(device());
    gpu::gather(own.data(), given.data(), value_map_, stream.get());
    gpu::synchronize(stream.get(), device());
    reordered_matrix()->update_values(own);
}

template <class T>
std::size_t PartedMatrix<T>::nbytes() const {
    const std::lock_guard lock(making_);
    const std::size_t maps = composed_maps_ ? composed_maps_->nbytes() : 0;
    return nbytes_of_parts() + workspaces_->nbytes() + maps + host_vectors_.nbytes() + column_copies_.nbytes() +
           value_map_.bytes();
}

template <class T>
SetupSeconds PartedMatrix<T>::setup_seconds() const {
    SetupSeconds sum;
    for (const Part& part : parts_) {
        const SetupSeconds seconds = part.matrix->setup_seconds();
        sum.convert += seconds.convert;
        sum.transfer += seconds.transfer;
    }
    return sum;
}

#define INSTANTIATE(T) template class PartedMatrix<T>;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
