#include "matrix/host_vectors.hpp"

#include <algorithm>

#include "core/errors.hpp"
#include "core/parallel.hpp"
#include "gpu/runtime.hpp"
#include "gpu/stream.hpp"

namespace spmvgpu {

namespace {

// Calls multiply(product) for a few columns at a time, in place, or in copies of x and y if they are wanted or do not
// lie by rows, or vector by vector.
template <class T, class Multiply>
void by_panels(const AnyMatrix<T>& matrix, const Product<T>& product, bool by_rows, bool copies_y, Multiply multiply) {
    constexpr std::size_t kMaxPinnedBytes = 256 << 20;  // more would be missed by the system
    const Device device = matrix.device();
    const auto fits = [&](const Strides& strides) { return (by_rows ? strides.column : strides.row) == 1; };
    const bool copy_x = !fits(product.x_strides), copy_y = copies_y || !fits(product.y_strides);
    const std::size_t cols = matrix.cols(), rows = matrix.rows();
    index_t most = product.columns;
    if (copy_x || copy_y) most = std::min(most, kPanelColumns<T>);
    if ((copy_x || copy_y) && device.has_own_memory()) {
        const std::size_t allowed = kMaxPinnedBytes / (std::max({rows, cols, std::size_t(1)}) * sizeof(T));
        most = static_cast<index_t>(std::clamp<std::size_t>(allowed, 1, most));
    }
    const auto memory_for = [&](bool is_copied, std::size_t length) -> std::shared_ptr<void> {
        return is_copied && length > 0 ? gpu::allocate_for_transfers(length * most * sizeof(T), device) : nullptr;
    };
    const std::shared_ptr<void> x_memory = memory_for(copy_x, cols), y_memory = memory_for(copy_y, rows);
    for (index_t first = 0; first < product.columns; first += most) {
        const index_t count = std::min(most, product.columns - first);
        const Product<T> given = product.part(first, count);
        Product<T> own = given;
        if (copy_x) {
            const auto x = Columns<T>::packed(static_cast<T*>(x_memory.get()), matrix.cols(), count, by_rows);
            copy_columns(columns_of_x(given), x, matrix.cols());
            set_x(own, x.read_only());
        }
        if (copy_y) {
            set_y(own, Columns<T>::packed(static_cast<T*>(y_memory.get()), matrix.rows(), count, by_rows));
            own.alpha = T(1);
            own.beta = T(0);
        }
        multiply(own);
        if (copy_y) {
            copy_columns(columns_of_y(own).read_only(), columns_of_y(given), matrix.rows(), given.alpha, given.beta);
        }
    }
}

}  // namespace

template <class T>
void multiply_in_host_memory(const AnyMatrix<T>& matrix, const Product<T>& product) {
    if (product.columns == 0 || matrix.rows() == 0) return;
    const bool in_place = product.vectors_are_contiguous();
    if (!matrix.device().has_own_memory() && product.columns > 1 &&
        (in_place ? matrix.panels_are_worth_copies(product.columns) : matrix.takes_rows())) {
        const bool is_plain = product.alpha == T(1) && product.beta == T(0);
        by_panels(matrix, product, /*by_rows=*/true, /*copies_y=*/!is_plain,
                  [&](const Product<T>& panel) { matrix.spmv(panel, nullptr); });
        return;
    }
    by_panels(matrix, product, /*by_rows=*/false, /*copies_y=*/false, [&](const Product<T>& vectors) {
        for_each_vector(vectors, [&](const Product<T>& vector) { matrix.spmv_host(vector); });
    });
}

template <class T>
void VectorExchange<T>::begin(const Product<T>& host, std::size_t x_size, std::size_t y_size, Device device,
                              const Crossing& crossing) {
    if (!stream_) {
        Array<T> x(x_size, device), y(y_size, device);
        stream_ = gpu::lease_stream(device);
        bytes_ = x.bytes() + y.bytes();
        x_ = std::move(x);
        y_ = std::move(y);
    }
    const gpu::DeviceGuard guard(device);
    const bool x_is_there = crossing.x_version != 0 && sent_version_ == crossing.x_version;
    sent_version_ = 0;  // in case the product throws
    if (!x_is_there && !crossing.fill_x) staging_.upload(x_.data(), host.x, x_.bytes(), stream_.get());
    if (!x_is_there && crossing.fill_x) staging_.upload(x_.data(), crossing.fill_x, x_.bytes(), stream_.get());
    if (host.beta != T(0)) staging_.upload(y_.data(), host.y, y_.bytes(), stream_.get());
}

// Values are stored as a whole, for which NumPy may have aligned them differently.
template <class T>
bool VectorExchange<T>::can_be_stored(const Product<T>& host) const {
    return host.beta == T(0) && reinterpret_cast<std::uintptr_t>(host.y) % sizeof(T) == 0 &&
           gpu::is_pinned(host.y, y_.bytes());
}

template <class T>
void VectorExchange<T>::finish(const Product<T>& host, bool is_stored) {
    const gpu::DeviceGuard guard(y_.device());
    const bool direct = gpu::is_pinned(host.y, y_.bytes());
    const std::shared_ptr<void> staged = direct || y_.bytes() == 0 ? nullptr : gpu::allocate_pinned(y_.bytes());
    if (!is_stored) gpu::copy_async(direct ? host.y : staged.get(), y_.data(), y_.bytes(), stream_.get());
    gpu::synchronize(stream_.get(), y_.device());
    if (staged) parallel_copy(host.y, staged.get(), y_.bytes());
}

namespace {

constexpr std::size_t kMostBytes = std::size_t(2) << 30;  // of x and y on the device; more columns go in several blocks
constexpr std::size_t kLeastColumns = 3;                  // in a block: see next_columns
constexpr std::size_t kBytesKept = std::size_t(64) << 20;  // for the next product

template <class T>
std::size_t bytes_of(const Columns<T>& block, index_t length) {
    return std::size_t(length) * block.count * sizeof(T);
}

template <class T, class Element>
bool lies_like(const Columns<T>& block, const Columns<Element>& host) {
    return host.row_stride == block.row_stride && host.column_stride == block.column_stride;
}

// Calls copy(packed, host, stride, count) for the runs of neighbouring elements that make up bytes [begin, begin +
// size) of a packed block, which lie at `chunk`.
template <class T, class Chunk, class Element, class Copy>
void for_each_run(Chunk* chunk, std::size_t begin, std::size_t size, const Columns<Element>& host, bool by_rows,
                  index_t length, const Copy& copy) {
    const std::ptrdiff_t inner = by_rows ? host.count : length;
    const std::ptrdiff_t step = by_rows ? host.column_stride : host.row_stride;
    const std::ptrdiff_t outer_step = by_rows ? host.row_stride : host.column_stride;
    const auto first = static_cast<std::ptrdiff_t>(begin / sizeof(T)), end = first + std::ptrdiff_t(size / sizeof(T));
    for (std::ptrdiff_t at = first; at < end;) {
        const std::ptrdiff_t i = at / inner, j = at % inner, count = std::min(inner - j, end - at);
        copy(chunk + (at - first), host.data + i * outer_step + j * step, step, count);
        at += count;
    }
}

}  // namespace

// Makes room for as many of the columns as are sent together, and returns their number.
template <class T>
index_t ColumnExchange<T>::reserve(const AnyMatrix<T>& matrix, index_t columns) {
    const std::size_t rows = matrix.rows(), cols = matrix.cols();
    const std::size_t least = std::min<std::size_t>(columns, kLeastColumns);
    std::size_t width = std::clamp<std::size_t>(kMostBytes / ((rows + cols) * sizeof(T)), least, columns);
    if (width > kMaxColumns && width < std::size_t(columns)) width -= width % kMaxColumns;
    for (;; width = std::max((width + 1) / 2, least)) {
        try {
            if (x_.size() < cols * width) x_ = {}, x_ = Array<T>(cols * width, matrix.device());
            if (y_.size() < rows * width) y_ = {}, y_ = Array<T>(rows * width, matrix.device());
            return static_cast<index_t>(width);
        } catch (const OutOfMemory&) {
            x_ = y_ = {};
            if (width == least) throw;
        }
    }
}

template <class T>
void ColumnExchange<T>::send(const Columns<T>& block, index_t length, const Columns<const T>& host, Stream stream) {
    const std::size_t bytes = bytes_of(block, length);
    if (lies_like(block, host)) return staging_.upload(block.data, host.data, bytes, stream);
    const bool by_rows = block.row_stride != 1;
    const auto fill = [&](void* chunk, std::size_t begin, std::size_t size) {
        for_each_run<T>(static_cast<T*>(chunk), begin, size, host, by_rows, length,
                        [](T* to, const T* from, std::ptrdiff_t step, std::ptrdiff_t count) {
                            for (std::ptrdiff_t i = 0; i < count; ++i) to[i] = from[i * step];
                        });
    };
    staging_.upload(block.data, gpu::Fill(fill), bytes, stream);
}

template <class T>
void ColumnExchange<T>::fetch(const Columns<T>& block, index_t length, const Columns<T>& host, Stream stream) {
    const std::size_t bytes = bytes_of(block, length);
    if (lies_like(block, host) && gpu::is_pinned(host.data, bytes)) {
        return gpu::copy_async(host.data, block.data, bytes, stream);
    }
    const bool by_rows = block.row_stride != 1;
    const auto drain = [&](const void* chunk, std::size_t begin, std::size_t size) {
        for_each_run<T>(static_cast<const T*>(chunk), begin, size, host, by_rows, length,
                        [](const T* from, T* to, std::ptrdiff_t step, std::ptrdiff_t count) {
                            for (std::ptrdiff_t i = 0; i < count; ++i) to[i * step] = from[i];
                        });
    };
    staging_.download(drain, block.data, bytes, stream);
}

template <class T>
void ColumnExchange<T>::run(const AnyMatrix<T>& matrix, const Product<T>& product) {
    if (product.columns == 0 || matrix.rows() == 0) return;
    const std::lock_guard lock(mutex_);
    const Device device = matrix.device();
    const gpu::DeviceGuard guard(device);
    const std::shared_ptr<void> stream = gpu::lease_stream(device);
    const index_t most = reserve(matrix, product.columns), rows = matrix.rows(), cols = matrix.cols();
    const auto by_rows = [&](const Strides& strides) { return matrix.takes_rows() && strides.row != 1; };
    for (index_t first = 0, count = 0; first < product.columns; first += count) {
        count = next_columns(product.columns - first, most);
        const Product<T> host = product.part(first, count);
        const auto x = Columns<T>::packed(x_.data(), cols, count, by_rows(host.x_strides));
        const auto y = Columns<T>::packed(y_.data(), rows, count, by_rows(host.y_strides));
        send(x, cols, columns_of_x(host), stream.get());
        if (host.beta != T(0)) send(y, rows, columns_of_y(host).read_only(), stream.get());
        Product<T> on_device{nullptr, nullptr, host.alpha, host.beta};
        on_device.columns = count;
        set_x(on_device, x.read_only());
        set_y(on_device, y);
        matrix.spmv(on_device, stream.get());
        fetch(y, rows, columns_of_y(host), stream.get());
    }
    gpu::synchronize(stream.get(), device);
    if (x_.bytes() + y_.bytes() > kBytesKept) x_ = y_ = {};
}

template <class T>
std::size_t ColumnExchange<T>::nbytes() const {
    const std::lock_guard lock(mutex_);
    return x_.bytes() + y_.bytes();
}

#define INSTANTIATE(T)                                                             \
    template void multiply_in_host_memory(const AnyMatrix<T>&, const Product<T>&); \
    template class VectorExchange<T>;                                              \
    template class ColumnExchange<T>;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
