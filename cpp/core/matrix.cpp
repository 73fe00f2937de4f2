#include "core/matrix.hpp"

#include <algorithm>
#include <chrono>
#include <type_traits>

#include "core/errors.hpp"
#include "core/parallel.hpp"
#include "cuda/runtime.hpp"

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

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

std::vector<FormatInfo> list_formats() {
    std::vector<FormatInfo> list;
    [&]<class... Formats>(std::variant<Formats...>*) {
        (list.push_back({Formats::kName, list_options(typename Formats::Tuning{}), Formats::Tuning::candidates()}), ...);
    }(static_cast<AnyFormat<double>*>(nullptr));
    return list;
}

template <class T>
Matrix<T>::Matrix(const Csr<T>& csr, const std::string& format, const Options& options, Device device) : device_(device) {
    with_format<T>(format, [&](auto* tag) {
        using Format = std::remove_pointer_t<decltype(tag)>;
        const auto tuning = read_options<typename Format::Tuning>(format, options);
        const auto start = std::chrono::steady_clock::now();
        const Format converted = Format::from_csr(csr, tuning, make_target(device));
        setup_.convert = seconds_since(start);
        storage_ = copy_to(converted, device);
        setup_.transfer = seconds_since(start) - setup_.convert;
    });
    constexpr int kStreamsExpected = 4;
    if (device.is_cuda()) unused_scratch_.assign(kStreamsExpected, {});
    for (Array<char>& space : unused_scratch_) space = make_scratch();
}

template <class T>
Estimate Matrix<T>::estimate(const Csr<T>& csr, const std::string& format, const Options& options) {
    Estimate estimate;
    with_format<T>(format, [&](auto* tag) {
        using Format = std::remove_pointer_t<decltype(tag)>;
        estimate = Format::estimate(csr, read_options<typename Format::Tuning>(format, options));
    });
    return estimate;
}

template <class T>
void Matrix<T>::spmv(const Product<T>& product, Stream stream) const {
    std::visit(
        [&](const auto& format) {
            if constexpr (kHasCuda) {
                if (device_.is_cuda()) {
                    const cuda::DeviceGuard guard(device_.ordinal);
                    Product<T> with_scratch = product;
                    with_scratch.scratch = scratch(stream);
                    return format.spmv_cuda(with_scratch, stream);
                }
            }
            format.spmv(product);
        },
        storage_);
}

template <class T>
void Matrix<T>::spmv_host(const Product<T>& product) const {
    if (!device_.is_cuda()) return spmv(product, nullptr);
    std::call_once(exchange_made_, [&] {
        exchange_ = std::make_unique<cuda::HostExchange<T>>(rows(), cols(), device_.ordinal);
    });
    exchange_->run(product, [&](const Product<T>& on_device, Stream stream) { spmv(on_device, stream); });
}

template <class T>
double Matrix<T>::time_products(int repeats) const {
    const Array<T> x = Array<T>::from(std::vector<T>(cols(), T(1))).to(device_);
    Array<T> y(rows(), device_);
    const Product<T> product{x.data(), y.data()};
    if (device_.is_cuda()) {
        return cuda::time_launches([&](Stream stream) { spmv(product, stream); }, repeats, device_.ordinal);
    }
    std::vector<double> times(std::max(1, repeats));
    spmv(product, nullptr);  // brings the matrix as close as the caches allow
    for (double& time : times) {
        const auto start = std::chrono::steady_clock::now();
        spmv(product, nullptr);
        time = 1e6 * seconds_since(start);
    }
    std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
    return times[times.size() / 2];
}

template <class T>
Array<char> Matrix<T>::make_scratch() const {
    const std::size_t bytes = std::visit([](const auto& format) { return format.workspace_bytes(); }, storage_);
    return Array<char>::from(std::vector<char>(bytes, 0)).to(device_);
}

template <class T>
void* Matrix<T>::scratch(Stream stream) const {
    const std::lock_guard lock(scratch_mutex_);
    auto found = scratch_.find(stream);
    if (found == scratch_.end()) {
        if (unused_scratch_.empty()) unused_scratch_.push_back(make_scratch());
        found = scratch_.emplace(stream, unused_scratch_.back()).first;
        unused_scratch_.pop_back();
    }
    return found->second.data();
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
index_t Matrix<T>::nnz() const {
    return std::visit([](const auto& format) { return format.nnz; }, storage_);
}

template <class T>
std::size_t Matrix<T>::nbytes() const {
    std::size_t bytes = 0;
    std::visit(
        [&](const auto& format) {
            format.each_array(format, [&](const char*, const auto& array) { bytes += array.footprint(); });
        },
        storage_);
    const std::lock_guard lock(scratch_mutex_);
    for (const auto& [stream, array] : scratch_) bytes += array.footprint();
    for (const auto& array : unused_scratch_) bytes += array.footprint();
    return bytes + (exchange_ ? exchange_->nbytes() : 0);
}

template <class T>
std::vector<OptionInfo> Matrix<T>::options() const {
    return std::visit([](const auto& format) { return list_options(format.tuning); }, storage_);
}

template class Matrix<float>;
template class Matrix<double>;

}  // namespace spmvgpu
