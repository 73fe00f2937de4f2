#include "matrix/matrix.hpp"

#include <chrono>
#include <stdexcept>
#include <type_traits>

#include "core/errors.hpp"
#include "core/host_vector.hpp"
#include "core/parallel.hpp"
#include "gpu/runtime.hpp"
#include "matrix/column_products.hpp"
#include "matrix/conversion.hpp"
#include "matrix/csr_source.hpp"
#include "matrix/timing.hpp"

namespace spmvgpu {

namespace {

// Calls visit.template operator()<Format>() for every format of the list, in order.
template <class T, class Visit>
void for_each_format(Visit&& visit) {
    [&]<class... Formats>(std::variant<Formats...>*) {
        (visit.template operator()<Formats>(), ...);
    }(static_cast<AnyFormat<T>*>(nullptr));
}

// The same for the one that carries the name.
template <class T, class Visit>
void with_format(const std::string& name, Visit&& visit) {
    bool found = false;
    std::string known;
    for_each_format<T>([&]<class Format>() {
        known += (known.empty() ? "" : ", ") + std::string(Format::kName);
        if (name != Format::kName) return;
        found = true;
        visit.template operator()<Format>();
    });
    if (!found) throw std::invalid_argument("unknown format '" + name + "'; the formats are: " + known);
}

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

std::vector<FormatInfo> list_formats() {
    std::vector<FormatInfo> list;
    for_each_format<double>([&]<class Format>() {
        using Tuning = typename Format::Tuning;
        list.push_back({Format::kName, list_options(Tuning{}), Tuning::candidates(), Format::kTraits});
    });
    return list;
}

Target target_of(Device device) {
    return {device, device.is_cuda() ? cuda::properties(device.ordinal).multiprocessors : max_threads()};
}

template <class T>
MatrixPlan plan_matrix(const CsrMatrix<T>& csr, const std::string& format, const Options& options,
                       const Target& target) {
    MatrixPlan result;
    with_format<T>(format, [&]<class Format>() {
        const auto tuning = read_options<typename Format::Tuning>(format, options);
        auto plan = plan_where_it_is<Format>(csr, tuning, target);
        result.cost = plan.cost;
        result.options = list_options(plan.tuning);
        result.made = std::move(plan);
    });
    return result;
}

template <class T>
Matrix<T>::Matrix(const CsrMatrix<T>& csr, const std::string& format, const Options& options, Device device,
                  Builders builders, const MatrixPlan* planned)
    : device_(device), options_(options) {
    with_format<T>(format, [&]<class Format>() {
        setup_ =
            convert<Format>(csr, planned, builders == Builders::kOfDevice ? builder_for<Format>(device) : Device{});
    });
    const std::size_t scratch = std::visit([](const auto& format) { return format.workspace_bytes(); }, storage_);
    workspaces_.emplace(scratch, device, array_bytes());
}

// What crosses the bus is the CSR, if that is not where it is built, or the format, if that is not where it stays. What
// is stored already stays as it is until nothing can fail any more.
template <class T>
template <class Format>
SetupSeconds Matrix<T>::convert(const CsrMatrix<T>& given, const MatrixPlan* planned, Device builder) {
    const auto tuning = read_options<typename Format::Tuning>(Format::kName, options_);
    SetupSeconds took;
    auto start = std::chrono::steady_clock::now();
    std::optional<CsrSource<T>> uploaded;
    if (builder.is_cuda() && !is_on_gpu(given)) uploaded.emplace(given, builder);
    const CsrMatrix<T> csr = uploaded                                 ? uploaded->csr()
                             : is_on_gpu(given) && !builder.is_cuda() ? copy_to(given, {})
                                                                      : given;
    took.transfer = seconds_since(start);

    start = std::chrono::steady_clock::now();
    std::optional<typename Format::Plan> own;
    const auto& plan = planned != nullptr ? std::any_cast<const typename Format::Plan&>(planned->made)
                                          : own.emplace(plan_where_it_is<Format>(csr, tuning, target_of(device_)));
    Format converted = build_where_it_is<Format>(csr, plan);
    auto counts = plan.cost.counts;
    const index_t longest_row = longest_row_where_it_is(csr);
    took.convert = seconds_since(start);

    start = std::chrono::steady_clock::now();
    // What is built of arrays in host memory may be those arrays, which are somebody else's.
    if (!builder.is_cuda()) converted = copy_to(converted, device_);
    storage_ = std::move(converted);
    stores_in_order_ = plan.cost.stores_in_order;
    counts_.swap(counts);
    longest_row_ = longest_row;
    took.transfer += seconds_since(start);
    return took;
}

template <class T>
index_t Matrix<T>::dot_parts() const {
    if (!device_.is_cuda() || rows() != cols()) return 0;
    return std::visit(
        [&]<class Format>(const Format& format) -> index_t {
            if constexpr (SumsDots<Format>) return format.dot_parts();
            return 0;
        },
        storage_);
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
    if (product.is_of_vectors()) return launch(product, stream, version_of(product.x));
    const auto multiply = [&](const Product<T>& vector) { launch(vector, stream, version_of(vector.x)); };
    if (device_.is_cuda()) {
        if (takes_rows()) {
            return row_copies_.run(product, {rows(), cols(), nnz()}, device_, stream,
                                   [&](const Product<T>& columns) { launch(columns, stream, 0); });
        }
        vector_copies_.run(product, rows(), cols(), device_, stream, multiply);
    } else {
        if (takes_rows() && product.rows_are_contiguous()) {
            return std::visit([&](const auto& format) { multiply_cpu(format, product); }, storage_);
        }
        for_each_vector(product, multiply);
    }
}

template <class T>
void Matrix<T>::launch(Product<T> product, Stream stream, std::uint64_t x_version) const {
    // A graph runs later, and often; what its scratch holds then nobody knows.
    if (x_version != 0 && device_.is_cuda() && cuda::is_capturing(stream)) x_version = 0;
    Workspaces::Space* const space = workspaces_->of(stream);
    std::unique_lock<Mutex> turn;
    bool is_gathered = false;
    if (space != nullptr) {
        turn = std::unique_lock(space->in_use);
        product.scratch = space->memory.data();
        is_gathered = x_version != 0 && space->gathered == x_version;
        space->gathered = 0;  // for the case that the product throws
    }
    std::visit(
        [&]<class Format>(const Format& format) {
            constexpr bool kGathers = Format::kTraits.gathers_x_first;
            if constexpr (kHasCuda) {
                if (device_.is_cuda()) {
                    const cuda::DeviceGuard guard(device_.ordinal);
                    if constexpr (kGathers) {
                        if (!is_gathered) format.gather_x_cuda(product, stream);
                    }
                    return multiply_cuda(format, product, stream);
                }
            }
            if constexpr (kGathers) {
                if (!is_gathered) format.gather_x(product);
            }
            multiply_cpu(format, product);
        },
        storage_);
    if (space != nullptr) space->gathered = x_version;
}

template <class T>
void Matrix<T>::spmv_host(const Product<T>& product) const {
    if (!product.is_of_vectors()) {
        if (!device_.is_cuda() || gathers_on_host()) return multiply_in_host_memory(*this, product);
        return column_exchange_.run(*this, product);
    }
    if (!device_.is_cuda()) return spmv(product, nullptr);
    const std::int64_t x_size = gathers_on_host() ? nnz() : cols();
    cuda::HostExchange<T>& exchange = exchange_.get(rows(), static_cast<index_t>(x_size), device_.ordinal);
    const std::lock_guard turn(exchange_mutex_);
    const std::uint64_t version = version_of(product.x);
    cuda::Crossing crossing;
    crossing.x_is_there = version != 0 && sent_version_ == version;
    crossing.store_y = stores_in_order_;
    std::visit(
        [&]<class Format>(const Format& format) {
            if constexpr (Format::kTraits.gathers_x_first) {
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
bool Matrix<T>::takes_rows() const {
    return std::visit(
        [&]<class Format>(const Format&) {
            return device_.is_cuda() ? Format::kTraits.multiplies_columns : Format::kTraits.multiplies_panels;
        },
        storage_);
}

template <class T>
bool Matrix<T>::panels_are_worth_copies(index_t vectors) const {
    // A copy takes about as long as a few entries of the matrix do, and vectors that are read all along the diagonals
    // leave nothing to be saved.
    const bool reads_diagonals =
        std::visit([]<class Format>(const Format&) { return Format::kTraits.reads_whole_diagonals; }, storage_);
    return takes_rows() && !reads_diagonals && vectors >= kPanelColumns<T> / 2 &&
           nnz() >= 2 * (std::int64_t(rows()) + cols());
}

template <class T>
void Matrix<T>::set_x(const T* x) {
    const bool gathers =
        std::visit([]<class Format>(const Format&) { return Format::kTraits.gathers_x_first; }, storage_);
    if (!gathers) {
        std::string known;
        for_each_format<T>([&]<class Format>() {
            if (Format::kTraits.gathers_x_first) known += (known.empty() ? "" : ", ") + std::string(Format::kName);
        });
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
        []<class Format>(const Format& format) {
            if constexpr (Format::kTraits.gathers_x_first) return format.gathers_on_host();
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
CsrMatrix<T> Matrix<T>::to_csr() const {
    const std::lock_guard lock(values_mutex_);
    return read_csr<T>(storage_);
}

template <class T>
void Matrix<T>::update_values(const Array<T>& values) {
    if (static_cast<std::int64_t>(values.size()) != nnz()) {
        throw std::invalid_argument(std::to_string(values.size()) + " values for a matrix of " + std::to_string(nnz()) +
                                    " stored entries");
    }
    if (values.device().is_cuda() && values.device() != device_) {
        throw std::invalid_argument("values on " + values.device().name() + " for a matrix on " + device_.name());
    }
    const std::lock_guard lock(values_mutex_);
    with_format<T>(format(), [&]<class Format>() {
        if constexpr (Format::kTraits.new_values == NewValues::kBuildAnew) {
            if (device_.is_cuda()) cuda::synchronize_device(device_.ordinal);
            const Device builder = builder_for<Format>(device_);
            convert<Format>(new_values_.in_pattern(storage_, values, builder), nullptr, builder);
        } else {
            new_values_.store(storage_, values, device_);
        }
    });
}

template <class T>
std::size_t Matrix<T>::value_map_bytes() const {
    const std::lock_guard lock(values_mutex_);
    return new_values_.nbytes();
}

template <class T>
std::map<std::string, double> Matrix<T>::counts() const {
    const std::lock_guard lock(values_mutex_);
    return counts_;
}

template <class T>
AnyFormat<T> Matrix<T>::storage() const {
    const std::lock_guard lock(values_mutex_);
    return storage_;
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
            format.each_array(format, [&](const char*, const auto& array) { bytes += array.bytes(); });
        },
        storage());
    return bytes;
}

template <class T>
std::size_t Matrix<T>::nbytes() const {
    return array_bytes() + value_map_bytes() + workspaces_->nbytes() + exchange_.nbytes() + column_exchange_.nbytes() +
           vector_copies_.nbytes() + row_copies_.nbytes();
}

template <class T>
std::vector<OptionInfo> Matrix<T>::options() const {
    return std::visit([](const auto& format) { return list_options(format.tuning); }, storage_);
}

#define INSTANTIATE(T)                                                                                       \
    template MatrixPlan plan_matrix(const CsrMatrix<T>&, const std::string&, const Options&, const Target&); \
    template class Matrix<T>;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
