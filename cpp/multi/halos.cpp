#include "multi/halos.hpp"

#include <algorithm>
#include <stdexcept>

#include "gpu/stream.hpp"
#include "multi/parted_matrix.hpp"

namespace spmvgpu {

template <class T>
bool Halos<T>::suits(const std::vector<DevicePart<T>>& parts, index_t rows, index_t cols) {
    index_t next = 0;
    bool in_order = rows == cols;
    for (const DevicePart<T>& part : parts) {
        if (part.row_count() == 0) continue;
        in_order = in_order && !part.rows.scattered() && part.rows.first == next;
        next += part.matrix->rows();
    }
    return in_order;
}

template <class T>
Halos<T>::Halos(const std::vector<DevicePart<T>>& parts, index_t rows, index_t cols) : size_(rows) {
    if (!suits(parts, rows, cols)) {
        throw std::invalid_argument(
            "vectors can stay on the devices of a square matrix whose parts hold neighbouring rows in order "
            "(partition='nnz' or 'rows'); this one has other parts, or is not square");
    }
    for (const DevicePart<T>& part : parts) {
        const index_t begin = part.rows.first, end = begin + part.matrix->rows();
        if (part.row_count() > 0) lanes_.push_back({&part, part.device(), begin, end, {}, {}});
    }
    find_pulls();
}

template <class T>
Halos<T>::Halos(const std::vector<DevicePart<T>>& parts, const std::vector<Device>& devices,
                const std::vector<index_t>& ends)
    : size_(ends.back()) {
    bool suit = parts.size() <= devices.size() && devices.size() == ends.size();
    for (std::size_t k = 0; suit && k < devices.size(); ++k) {
        const DevicePart<T>* const part = k < parts.size() ? &parts[k] : nullptr;
        suit = part == nullptr || (!part->rows.scattered() && part->device() == devices[k]);
        lanes_.push_back({part, devices[k], k > 0 ? ends[k - 1] : 0, ends[k], {}, {}});
    }
    if (!suit) throw std::invalid_argument("parts that do not lie on the devices with pieces of a vector");
    find_pulls();
}

template <class T>
void Halos<T>::find_pulls() {
    for (std::size_t own = 0; own < lanes_.size(); ++own) {
        Lane& lane = lanes_[own];
        for (std::size_t from = 0; from < lanes_.size() && lane.part != nullptr; ++from) {
            Lane& other = lanes_[from];
            const index_t begin = std::max(lane.part->col_begin, other.begin);
            const index_t end = std::min(lane.part->col_end, other.end);
            if (own == from || begin >= end) continue;
            lane.pulls.push_back({from, begin, end});
            other.read_by.push_back(own);
            gpu::allow_peer_access(lane.device, other.device);
        }
    }
    for (const Lane& lane : lanes_) {
        for (const Pull& pull : lane.pulls) note_reading(lanes_[pull.from], pull);
    }
}

template <class T>
void Halos<T>::note_reading(Lane& lane, const Pull& pull) {
    if (!lane.has_interior()) return;
    const auto& parts = dynamic_cast<const PartedMatrix<T>&>(*lane.part->matrix).parts();
    for (std::size_t i = 0; i < lane.part->interior_parts; ++i) {
        const index_t begin = lane.begin + parts[i].rows.first, end = begin + parts[i].matrix->rows();
        lane.is_interior_read = lane.is_interior_read || (pull.begin < end && begin < pull.end);
    }
}

template <class T>
std::vector<Device> Halos<T>::devices() const {
    std::vector<Device> devices;
    for (const Lane& lane : lanes_) devices.push_back(lane.device);
    return devices;
}

template <class T>
std::vector<index_t> Halos<T>::ends() const {
    std::vector<index_t> ends;
    for (const Lane& lane : lanes_) ends.push_back(lane.end);
    return ends;
}

template <class T>
DotsLeft Halos<T>::Lane::dots_left() const {
    if (part == nullptr) return {};
    const index_t rows = part->matrix->rows();
    const AnyMatrix<T>* inner = part->matrix.get();
    index_t first = 0;
    if (has_interior()) {
        const auto& of_interior = dynamic_cast<const PartedMatrix<T>&>(*part->matrix).parts()[0];
        inner = of_interior.matrix.get(), first = of_interior.rows.first;
    }
    const auto* const matrix = dynamic_cast<const Matrix<T>*>(inner);
    const index_t pairs = matrix == nullptr ? 0 : matrix->dot_parts();
    if (pairs == 0 || (has_interior() && part->interior_parts > 1)) return {0, {{0, rows}}};
    return {pairs, {{0, first}, {first + matrix->rows(), rows}}};
}

template <class T>
void Halos<T>::Lane::multiply(const Product<T>& product, Stream stream, Stream pulling) const {
    if (!has_interior()) return part->matrix->spmv(product, stream);
    const auto& parted = dynamic_cast<const PartedMatrix<T>&>(*part->matrix);
    parted.spmv_parts(0, part->interior_parts, product, stream);
    Product<T> of_others = product;
    of_others.dots = nullptr;
    parted.spmv_parts(part->interior_parts, parted.parts().size(), of_others, pulling);
    gpu::order_after(stream, pulling);
}

template <class T>
bool Halos<T>::has_gpus() const {
    return std::any_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.device.is_gpu(); });
}

template <class T>
bool Halos<T>::has_cpus() const {
    return std::any_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return !lane.device.is_gpu(); });
}

template <class T>
bool Halos<T>::can_be_recorded() const {
    return std::all_of(lanes_.begin(), lanes_.end(),
                       [](const Lane& lane) { return lane.part == nullptr || lane.part->matrix->can_be_recorded(); });
}

#define INSTANTIATE(T) template class Halos<T>;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
