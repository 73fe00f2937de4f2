#include "exec/parted_matrix.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <string>

#include "core/errors.hpp"
#include "core/parallel.hpp"
#include "core/timing.hpp"
#include "cuda/gather.hpp"

namespace spmvgpu {

namespace {

template <class T>
void gather_on(Device device, T* to, const T* from, const Array<index_t>& places, Stream stream) {
    const auto count = static_cast<index_t>(places.size());
    if (device.is_cuda()) return cuda::gather(to, from, places.data(), count, device.ordinal, stream);
#pragma omp parallel for num_threads(threads_for(count)) schedule(static)
    for (index_t i = 0; i < count; ++i) to[i] = from[places[i]];
}

template <class T>
std::size_t scratch_bytes(const std::vector<typename PartedMatrix<T>::Part>& parts) {
    std::size_t longest = 0;
    for (const auto& part : parts) longest = std::max(longest, part.cols.map.size());
    return longest * sizeof(T);
}

void check_range(const char* what, const Places& places, index_t count, index_t limit) {
    const bool is_map = places.map.size() > 0;
    if (is_map && places.map.size() != static_cast<std::size_t>(count)) {
        throw std::invalid_argument("a part has " + std::to_string(count) + " " + what + ", but " +
                                    std::to_string(places.map.size()) + " places for them");
    }
    for (index_t i = 0; i < (is_map ? count : std::min<index_t>(count, 1)); ++i) {
        const index_t low = is_map ? places.map[i] : places.first;
        if (low < 0 || low >= limit || (!is_map && count > limit - low)) {
            throw std::invalid_argument("a part's " + std::string(what) + " reach beyond the " + std::to_string(limit) +
                                        " of the matrix");
        }
    }
}

}  // namespace

Places Places::from(const std::vector<index_t>& places) {
    const auto count = static_cast<std::int64_t>(places.size());
    Places result;
    if (count == 0) return result;
    result.first = places[0];
    for (std::int64_t i = 0; i < count; ++i) {
        if (places[i] != result.first + i) return {0, Array<index_t>::from(places)};
    }
    return result;
}

template <class T>
PartedMatrix<T>::PartedMatrix(index_t rows, index_t cols, std::vector<Part> parts)
    : rows_(rows), cols_(cols), parts_(std::move(parts)) {
    check_parts();
    move_maps_to_device();
    workspaces_.emplace(scratch_bytes<T>(parts_), device(), nbytes_of_parts());
}

template <class T>
void PartedMatrix<T>::check_parts() const {
    if (parts_.empty()) throw std::invalid_argument("a matrix of parts needs one at least");
    std::vector<bool> taken(rows_);
    for (const Part& part : parts_) {
        if (part.matrix->device() != device()) {
            throw std::invalid_argument("parts on " + device().name() + " and on " + part.matrix->device().name());
        }
        check_range("rows", part.rows, part.matrix->rows(), rows_);
        check_range("columns", part.cols, part.matrix->cols(), cols_);
        for (index_t i = 0; i < part.matrix->rows(); ++i) {
            const index_t row = part.rows.map.size() ? part.rows.map[i] : part.rows.first + i;
            if (taken[row]) throw std::invalid_argument("row " + std::to_string(row) + " lies in two parts");
            taken[row] = true;
        }
    }
    const auto missing = std::find(taken.begin(), taken.end(), false);
    if (missing != taken.end()) {
        throw std::invalid_argument("row " + std::to_string(missing - taken.begin()) + " lies in no part");
    }
}

template <class T>
void PartedMatrix<T>::move_maps_to_device() {
    std::map<const index_t*, Array<index_t>> moved;
    for (Part& part : parts_) {
        for (Array<index_t>* map : {&part.rows.map, &part.cols.map}) {
            if (map->size() == 0) continue;
            const auto [found, is_new] = moved.try_emplace(map->data());
            if (is_new) found->second = map->to(device());
            *map = found->second;
        }
    }
}

template <class T>
void PartedMatrix<T>::spmv(const Product<T>& product, Stream stream) const {
    Workspaces::Space* const space = workspaces_->of(stream);
    if (space == nullptr) return multiply_parts(product, nullptr, stream);
    const std::lock_guard turn(space->in_use);
    multiply_parts(product, reinterpret_cast<T*>(space->memory.data()), stream);
}

template <class T>
void PartedMatrix<T>::multiply_parts(const Product<T>& product, T* gathered_x, Stream stream) const {
    const index_t* gathered_map = nullptr;  // neighbours that share a map share what is gathered
    for (const Part& part : parts_) {
        Product<T> own = product;
        if (part.cols.map.size() > 0) {
            if (part.cols.map.data() != gathered_map) {
                gather_on(device(), gathered_x, product.x, part.cols.map, stream);
            }
            gathered_map = part.cols.map.data();
            own.x = gathered_x;
        } else {
            own.x += part.cols.first;
        }
        if (part.rows.map.size() > 0) {
            own.row_map = part.rows.map.data();
        } else {
            own.y += part.rows.first;
        }
        part.matrix->spmv(own, stream);
    }
}

template <class T>
void PartedMatrix<T>::spmv_host(const Product<T>& product) const {
    if (!device().is_cuda()) return spmv(product, nullptr);
    std::call_once(exchange_made_,
                   [&] { exchange_ = std::make_unique<cuda::HostExchange<T>>(rows_, cols_, device().ordinal); });
    exchange_->run(product, [&](const Product<T>& on_device, Stream stream) { spmv(on_device, stream); });
}

template <class T>
void PartedMatrix<T>::set_x(const T*) {
    throw UnknownOption("a matrix made of parts does not keep gathered values of x, so it has no set_x");
}

template <class T>
double PartedMatrix<T>::time_products(const Series& series) const {
    const Array<T> x = Array<T>::from(std::vector<T>(cols_, T(1))).to(device());
    Array<T> y(rows_, device());
    Stream timed = nullptr;
    const auto multiply = [&](Stream stream) { spmv({x.data(), y.data()}, timed = stream); };
    const double microseconds = time_series(multiply, series, device());
    if (device().is_cuda()) workspaces_->forget(timed);  // the stream goes on to others
    return microseconds;
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
        for (const Array<index_t>* map : {&part.rows.map, &part.cols.map}) {
            if (counted.insert(map->data()).second) bytes += map->footprint();
        }
    }
    return bytes;
}

template <class T>
std::size_t PartedMatrix<T>::nbytes() const {
    return nbytes_of_parts() + workspaces_->nbytes() + (exchange_ ? exchange_->nbytes() : 0);
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

template class PartedMatrix<float>;
template class PartedMatrix<double>;

}  // namespace spmvgpu
