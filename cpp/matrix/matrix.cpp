#include "matrix/matrix.hpp"

#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "core/errors.hpp"
#include "gpu/keeping.hpp"
#include "gpu/runtime.hpp"
#include "gpu/timing.hpp"
#include "matrix/launch.hpp"

namespace spmvgpu {

namespace {

// The share of a matrix that stays in the L2 of a GPU from product to product, see gpu/cuda/keeping.cuh: as large as
// the room beside the vectors of a solver, about five. For a much larger matrix it would be too small to be useful.
double share_to_keep(double bytes, double vector_bytes, double cache_bytes) {
    constexpr double kMost = 0.46, kRoom = 0.55, kVectors = 5, kLargest = 2.2;  // without the vectors in caches
    if (bytes > kLargest * cache_bytes) return 0;
    const double room = std::min(kMost * cache_bytes, kRoom * cache_bytes - kVectors * vector_bytes);
    return std::clamp(room / bytes, 0.0, 1.0);
}

}  // namespace

template <class T>
Matrix<T>::Matrix(const CsrMatrix<T>& csr, const std::string& format, const Options& options, Device device,
                  Builders builders, const MatrixPlan* planned)
    : device_(device), options_(options), stored_(convert(csr, format, options, device, builders, planned)) {
    const std::size_t scratch = std::visit([](const auto& f) { return f.workspace_bytes(); }, stored_.format);
    workspaces_.emplace(scratch, device, stored_.bytes());
    if (device.is_gpu()) {
        const double vector_bytes = (static_cast<double>(rows()) + cols()) / 2 * sizeof(T);
        const auto cache_bytes = static_cast<double>(gpu::properties(device.ordinal).l2_bytes);
        const double share = share_to_keep(static_cast<double>(stored_.bytes()), vector_bytes, cache_bytes);
        policy_ = gpu::policy_to_keep(share, device.ordinal);
    }
}

template <class T>
Matrix<T>::Matrix(std::shared_ptr<const Matrix> of, AnyFormat<T> format)
    : device_(of->device_), options_(of->options_), policy_(of->policy_), of_(std::move(of)) {
    stored_.format = std::move(format);
    stored_.stores_in_order = of_->stored_.stores_in_order;
    this->max_threads = of_->max_threads;
}

template <class T>
std::shared_ptr<Matrix<T>> Matrix<T>::with_values(const std::shared_ptr<const Matrix>& matrix, const T* values) {
    return std::visit(
        [&]<class Format>(const Format& stored) -> std::shared_ptr<Matrix> {
            if constexpr (Format::kTraits.new_values == NewValues::kCopy) {
                Format format = stored;
                format.values = Array<T>::view(values, format.nnz, matrix->device_);
                return std::shared_ptr<Matrix>(new Matrix(matrix, std::move(format)));
            } else {
                return nullptr;
            }
        },
        matrix->storage());
}

template <class T>
void Matrix<T>::check_spmv() const {
    if (!gathers_on_host()) return;
    throw FormatError("format '" + format() +
                      "' with gather='host' gathers x in host memory, so it takes NumPy arrays, on one device and in " +
                      "the order of the matrix; build the operator with gather='device'");
}

template <class T>
void Matrix<T>::spmv(const Product<T>& product, Stream stream) const {
    check_spmv();
    if (product.is_of_vectors()) return multiply(product, stream, declared_x_.version_of(product.x));
    if (takes_rows() && (device_.is_gpu() || product.rows_are_contiguous())) {
        return owner_of_scratch().column_copies_.at_once(
            product, size(), device_, stream, [&](const Product<T>& columns) { multiply(columns, stream, 0); });
    }
    owner_of_scratch().column_copies_.one_by_one(product, size(), device_, stream, [&](const Product<T>& vector) {
        multiply(vector, stream, declared_x_.version_of(vector.x));
    });
}

template <class T>
void Matrix<T>::multiply(Product<T> product, Stream stream, std::uint64_t x_version) const {
    product.policy = policy_;
    // A graph runs later, and often, and its scratch space may then hold other values.
    if (x_version != 0 && gpu::is_capturing(stream, device_)) x_version = 0;
    const bool needs_scratch = device_.is_gpu() || product.is_of_vectors();
    Workspaces::Space* const space = needs_scratch ? owner_of_scratch().workspaces_->of(stream) : nullptr;
    std::unique_lock<Mutex> turn;
    bool is_gathered = false;
    if (space != nullptr) {
        turn = std::unique_lock(space->in_use);
        product.scratch = space->memory.data();
        is_gathered = x_version != 0 && space->gathered == x_version;
        space->gathered = 0;  // in case the product throws
    }
    std::visit([&](const auto& format) { launch(format, product, device_, stream, is_gathered); }, stored_.format);
    if (space != nullptr) space->gathered = x_version;
}

template <class T>
void Matrix<T>::spmv_host(const Product<T>& product) const {
    if (!device_.has_own_memory() && product.is_of_vectors()) return spmv(product, nullptr);  // the shortest way
    if (!device_.has_own_memory()) return owner_of_scratch().host_vectors_.run(*this, product);
    const bool on_host = gathers_on_host();
    if (!product.is_of_vectors()) {
        return on_host ? multiply_in_host_memory(*this, product) : owner_of_scratch().host_vectors_.run(*this, product);
    }
    Crossing crossing;
    crossing.x_version = declared_x_.version_of(product.x);
    crossing.store_y = stored_.stores_in_order;
    std::visit(
        [&]<class Format>(const Format& format) {
            if constexpr (Format::kTraits.gathers_x_first) {
                if (!on_host) return;
                crossing.fill_x = [&](void* chunk, std::size_t begin, std::size_t bytes) {
                    format.gather(product.x, static_cast<T*>(chunk), static_cast<index_t>(begin / sizeof(T)),
                                  static_cast<index_t>((begin + bytes) / sizeof(T)));
                };
            }
        },
        stored_.format);
    const auto multiply_there = [&](const Product<T>& on_device, Stream stream) {
        multiply(on_device, stream, crossing.x_version);
    };
    owner_of_scratch().host_vectors_.vector().run(product, on_host ? nnz() : cols(), rows(), device_, multiply_there,
                                                  crossing);
}

template <class T>
bool Matrix<T>::takes_rows() const {
    return device_.is_gpu() ? traits().multiplies_columns : traits().multiplies_panels;
}

template <class T>
bool Matrix<T>::panels_are_worth_copies(index_t vectors) const {
    // A copy takes about as long as a few entries of the matrix, and vectors that are read along whole diagonals leave
    // nothing to save.
    return takes_rows() && !traits().reads_whole_diagonals && vectors >= kPanelColumns<T> / 2 &&
           nnz() >= 2 * (std::int64_t(rows()) + cols());
}

template <class T>
bool Matrix<T>::gathers_on_host() const {
    return std::visit(
        []<class Format>(const Format& format) {
            if constexpr (Format::kTraits.gathers_x_first) return format.gathers_on_host();
            return false;
        },
        stored_.format);
}

template <class T>
index_t Matrix<T>::dot_parts() const {
    if (!device_.is_gpu()) return 0;
    return std::visit(
        [&]<class Format>(const Format& format) -> index_t {
            if constexpr (SumsDots<Format>) return format.dot_parts();
            return 0;
        },
        stored_.format);
}

template <class T>
double Matrix<T>::time_products(const Series& series) const {
    // Values gathered by a host are present, as in a series with one x. They are zeros, because they need not cross the
    // bus.
    Array<T> x(gathers_on_host() ? nnz() : cols(), device_), y(rows(), device_);
    set_zero(x.data(), device_, x.bytes());
    const Product<T> product{x.data(), y.data()};
    return owner_of_scratch().workspaces_->time_launches([&](Stream stream) { multiply(product, stream, 0); }, series);
}

template <class T>
CsrMatrix<T> Matrix<T>::to_csr() const {
    const std::lock_guard lock(values_mutex_);
    return read_csr<T>(stored_.format);
}

template <class T>
CsrMatrix<T> Matrix<T>::csr_there(bool may_lend) const {
    const std::lock_guard lock(values_mutex_);
    return read_csr_there<T>(stored_.format, device_, may_lend);
}

template <class T>
void Matrix<T>::update_values(const Array<T>& values) {
    if (static_cast<std::int64_t>(values.size()) != nnz()) {
        throw std::invalid_argument(std::to_string(values.size()) + " values for a matrix of " + std::to_string(nnz()) +
                                    " stored entries");
    }
    if (values.device().has_own_memory() && values.device() != device_) {
        throw std::invalid_argument("values on " + values.device().name() + " for a matrix on " + device_.name());
    }
    const std::lock_guard lock(values_mutex_);
    new_values_.store(stored_, values, options_, device_);
}

template <class T>
std::size_t Matrix<T>::value_map_bytes() const {
    const std::lock_guard lock(values_mutex_);
    return new_values_.nbytes();
}

template <class T>
std::map<std::string, double> Matrix<T>::counts() const {
    const std::lock_guard lock(values_mutex_);
    return stored_.counts;
}

template <class T>
AnyFormat<T> Matrix<T>::storage() const {
    const std::lock_guard lock(values_mutex_);
    return stored_.format;
}

template <class T>
const Traits& Matrix<T>::traits() const {
    return std::visit([]<class Format>(const Format&) -> const Traits& { return Format::kTraits; }, stored_.format);
}

template <class T>
std::string Matrix<T>::format() const {
    return std::visit([](const auto& format) { return format.kName; }, stored_.format);
}

template <class T>
index_t Matrix<T>::rows() const {
    return std::visit([](const auto& format) { return format.rows; }, stored_.format);
}

template <class T>
index_t Matrix<T>::cols() const {
    return std::visit([](const auto& format) { return format.cols; }, stored_.format);
}

template <class T>
std::int64_t Matrix<T>::nnz() const {
    return std::visit([](const auto& format) -> std::int64_t { return format.nnz; }, stored_.format);
}

template <class T>
std::size_t Matrix<T>::nbytes() const {
    const std::size_t arrays = [&] {
        const std::lock_guard lock(values_mutex_);
        return stored_.bytes() + new_values_.nbytes();
    }();
    const Matrix& own = owner_of_scratch();
    return arrays + own.workspaces_->nbytes() + own.host_vectors_.nbytes() + own.column_copies_.nbytes();
}

template <class T>
std::vector<OptionInfo> Matrix<T>::options() const {
    return std::visit([](const auto& format) { return list_options(format.tuning); }, stored_.format);
}

#define INSTANTIATE(T) template class Matrix<T>;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
