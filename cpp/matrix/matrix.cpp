#include "matrix/matrix.hpp"

#include <chrono>
#include <type_traits>

#include "core/errors.hpp"
#include "core/host_vector.hpp"
#include "core/parallel.hpp"
#include "cuda/runtime.hpp"
#include "matrix/timing.hpp"

namespace spmvgpu {

namespace {

// Calls visit with a null pointer of the format type that carries the name.
template <class T, class Visit>
void with_format(const std::string& name, Visit&& visit) {
    bool found = false;
    std::string known;
    const auto try_one = [&](auto* format) {
        using Format = std::remove_pointer_t<decltype(format)>;
        known += (known.empty() ? "" : ", ") + std::string(Format::kName);
        if (name != Format::kName) return;
        found = true;
        visit(format);
    };
    [&]<class... Formats>(std::variant<Formats...>*) {
        (try_one(static_cast<Formats*>(nullptr)), ...);
    }(static_cast<AnyFormat<T>*>(nullptr));
    if (!found) throw std::invalid_argument("unknown format '" + name + "'; the formats are: " + known);
}

Target make_target(Device device) {
    return {device, device.is_cuda() ? cuda::properties(device.ordinal).multiprocessors : max_threads()};
}

// A copy of a format with every array in memory of its own on the device. All of it is asked for at once beforehand, so
// that a matrix that is too large fails before anything is allocated.
template <class Format>
Format copy_to(const Format& format, Device device) {
    if (device.is_cuda()) {
        std::size_t bytes = 0;
        Format::each_array(format, [&](const char*, const auto& array) { bytes += array.bytes(); });
        const std::size_t available = cuda::memory(device.ordinal).free;
        if (bytes > available) throw OutOfMemory(device.name(), bytes, available);
    }
    Format copy = format;
    Format::each_array(copy, [&](const char*, auto& array) { array = array.to(device); });
    return copy;
}

// A format that multiplies with values gathered from x, which it may keep from one product to the next.
template <class Format>
concept Gathers = requires(const Format& format) {
    format.gathers_on_host();
};

// A format that refuses whatever is not symmetric.
template <class Format>
concept Symmetric = Format::kSymmetric;

// A format that reads x all along its diagonals, whether an entry is there or not.
template <class Format>
concept ReadsDiagonals = Format::kReadsDiagonals;

// A format that multiplies several vectors at once on the CPU.
template <class Format>
concept MultipliesPanels = requires(const Format& format, const PanelProduct<typename Format::value_type>& product) {
    format.multiply_panel(product);
};

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

std::vector<FormatInfo> list_formats() {
    std::vector<FormatInfo> list;
    [&]<class... Formats>(std::variant<Formats...>*) {
        (list.push_back({Formats::kName, list_options(typename Formats::Tuning{}), Formats::Tuning::candidates(),
                         Symmetric<Formats>, ReadsDiagonals<Formats>}),
         ...);
    }(static_cast<AnyFormat<double>*>(nullptr));
    return list;
}

template <class T>
Matrix<T>::Matrix(const Csr<T>& csr, const std::string& format, const Options& options, Device device)
    : device_(device) {
    with_format<T>(format, [&](auto* tag) {
        using Format = std::remove_pointer_t<decltype(tag)>;
        const auto tuning = read_options<typename Format::Tuning>(format, options);
        const auto start = std::chrono::steady_clock::now();
        const Format converted = Format::from_csr(csr, tuning, make_target(device));
        setup_.convert = seconds_since(start);
        storage_ = copy_to(converted, device);
        setup_.transfer = seconds_since(start) - setup_.convert;
    });
    const std::size_t scratch = std::visit([](const auto& format) { return format.workspace_bytes(); }, storage_);
    workspaces_.emplace(scratch, device, array_bytes());
}

template <class T>
Estimate Matrix<T>::estimate(const Csr<T>& csr, const std::string& format, const Options& options, Device device) {
    Estimate estimate;
    with_format<T>(format, [&](auto* tag) {
        using Format = std::remove_pointer_t<decltype(tag)>;
        const auto tuning = read_options<typename Format::Tuning>(format, options);
        estimate = Format::estimate(csr, tuning, make_target(device));
    });
    return estimate;
}

template <class T>
void Matrix<T>::spmv(const Product<T>& product, Stream stream) const {
    if (gathers_on_host()) {
        throw std::invalid_argument("format '" + format() +
                                    "' with gather='host' gathers x in host memory; give a NumPy " +
                                    "array, or build the operator with gather='device'");
    }
    launch(product, stream, version_of(product.x));
}

template <class T>
void Matrix<T>::launch(Product<T> product, Stream stream, std::uint64_t x_version) const {
    // A graph runs later, and often; what its scratch holds then nobody knows.
    if (x_version != 0 && device_.is_cuda() && cuda::is_capturing(stream)) x_version = 0;
    Workspaces::Space* const space = workspaces_->of(stream);
    std::unique_lock<Mutex> turn;
    if (space != nullptr) {
        turn = std::unique_lock(space->in_use);
        product.scratch = space->memory.data();
        product.gathered = x_version != 0 && space->gathered == x_version;
        space->gathered = 0;  // for the case that the product throws
    }
    std::visit(
        [&](const auto& format) {
            if constexpr (kHasCuda) {
                if (device_.is_cuda()) {
                    const cuda::DeviceGuard guard(device_.ordinal);
                    return format.spmv_cuda(product, stream);
                }
            }
            format.spmv(product);
        },
        storage_);
    if (space != nullptr) space->gathered = x_version;
}

template <class T>
void Matrix<T>::spmv_host(const Product<T>& product) const {
    if (!device_.is_cuda()) return spmv(product, nullptr);
    const std::int64_t x_size = gathers_on_host() ? nnz() : cols();
    cuda::HostExchange<T>& exchange = exchange_.get(rows(), static_cast<index_t>(x_size), device_.ordinal);
    const std::lock_guard turn(exchange_mutex_);
    const std::uint64_t version = version_of(product.x);
    cuda::Crossing crossing;
    crossing.x_is_there = version != 0 && sent_version_ == version;
    std::visit(
        [&](const auto& format) {
            if constexpr (requires { format.stores_in_order(); }) crossing.store_y = format.stores_in_order();
            if constexpr (Gathers<std::remove_cvref_t<decltype(format)>>) {
                if (!format.gathers_on_host()) return;
                crossing.fill_x = [&](void* chunk, std::size_t begin, std::size_t bytes) {
                    format.gather(product.x, static_cast<T*>(chunk), static_cast<index_t>(begin / sizeof(T)),
                                  static_cast<index_t>((begin + bytes) / sizeof(T)));
                };
            }
        },
        storage_);
    sent_version_ = 0;  // for the case that the product throws
    exchange.run(
        product, [&](const Product<T>& on_device, Stream stream) { launch(on_device, stream, version); }, crossing);
    sent_version_ = version;
}

template <class T>
bool Matrix<T>::multiplies_panels() const {
    return !device_.is_cuda() &&
           std::visit([](const auto& format) { return MultipliesPanels<std::remove_cvref_t<decltype(format)>>; },
                      storage_);
}

template <class T>
void Matrix<T>::multiply_panel(const PanelProduct<T>& product) const {
    std::visit(
        [&](const auto& format) {
            if constexpr (MultipliesPanels<std::remove_cvref_t<decltype(format)>>) format.multiply_panel(product);
        },
        storage_);
}

template <class T>
bool Matrix<T>::panels_are_worth_copies(index_t vectors) const {
    // A copy takes about as long as a few entries of the matrix do, and vectors that are read all along the diagonals
    // leave nothing to be saved.
    const bool reads_diagonals =
        std::visit([](const auto& format) { return ReadsDiagonals<std::remove_cvref_t<decltype(format)>>; }, storage_);
    return multiplies_panels() && !reads_diagonals && vectors >= kPanelColumns<T> / 2 &&
           nnz() >= 2 * (std::int64_t(rows()) + cols());
}

template <class T>
void Matrix<T>::set_x(const T* x) {
    const bool gathers =
        std::visit([](const auto& format) { return Gathers<std::remove_cvref_t<decltype(format)>>; }, storage_);
    if (!gathers) {
        std::string known;
        [&]<class... Formats>(std::variant<Formats...>*) {
            ((known += Gathers<Formats> ? (known.empty() ? "" : ", ") + std::string(Formats::kName) : ""), ...);
        }(static_cast<AnyFormat<T>*>(nullptr));
        throw UnknownOption("format '" + format() +
                            "' does not keep gathered values of x, so it has no set_x; formats that " + "do: " + known);
    }
    const std::lock_guard lock(x_mutex_);
    // In this order, so that whatever a fork comes between, no product takes the values of another x.
    declared_x_ = nullptr;
    ++declared_version_;
    declared_x_ = x;
}

template <class T>
std::uint64_t Matrix<T>::version_of(const T* x) const {
    const std::lock_guard lock(x_mutex_);
    return x != nullptr && x == declared_x_ ? declared_version_.load() : 0;
}

template <class T>
bool Matrix<T>::gathers_on_host() const {
    return std::visit(
        [](const auto& format) {
            if constexpr (Gathers<std::remove_cvref_t<decltype(format)>>) return format.gathers_on_host();
            return false;
        },
        storage_);
}

template <class T>
double Matrix<T>::time_products(const Series& series) const {
    // What a host gathers is there, as in a series with one x.
    const Array<T> x = Array<T>::from(HostVector<T>(gathers_on_host() ? nnz() : cols(), T(1))).to(device_);
    Array<T> y(rows(), device_);
    const Product<T> product{x.data(), y.data()};
    Stream timed = nullptr;
    const auto multiply = [&](Stream stream) { launch(product, timed = stream, 0); };
    const double microseconds = time_series(multiply, series, device_);
    if (device_.is_cuda()) workspaces_->forget(timed);  // the stream goes on to others
    return microseconds;
}

template <class T>
Csr<T> Matrix<T>::to_csr() const {
    return std::visit([](const auto& format) { return copy_to(format, {}).to_csr(); }, storage_);
}

template <class T>
std::string Matrix<T>::format() const {
    return std::visit([](const auto& format) { return format.kName; }, storage_);
}

template <class T>
index_t Matrix<T>::rows() const {
    return std::visit([](const auto& format) { return format.rows; }, storage_);
}

template <class T>
index_t Matrix<T>::cols() const {
    return std::visit([](const auto& format) { return format.cols; }, storage_);
}

template <class T>
std::int64_t Matrix<T>::nnz() const {
    return std::visit([](const auto& format) -> std::int64_t { return format.nnz; }, storage_);
}

template <class T>
std::size_t Matrix<T>::array_bytes() const {
    std::size_t bytes = 0;
    std::visit(
        [&](const auto& format) {
            format.each_array(format, [&](const char*, const auto& array) { bytes += array.footprint(); });
        },
        storage_);
    return bytes;
}

template <class T>
std::size_t Matrix<T>::nbytes() const {
    return array_bytes() + workspaces_->nbytes() + exchange_.nbytes();
}

template <class T>
std::vector<OptionInfo> Matrix<T>::options() const {
    return std::visit([](const auto& format) { return list_options(format.tuning); }, storage_);
}

template class Matrix<float>;
template class Matrix<double>;

}  // namespace spmvgpu
