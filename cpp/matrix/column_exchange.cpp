#include "matrix/column_exchange.hpp"

#include <algorithm>

#include "core/errors.hpp"
#include "gpu/runtime.hpp"
#include "gpu/stream.hpp"

namespace spmvgpu {

namespace {

constexpr std::size_t kMostBytes = std::size_t(2) << 30;  // of x and y on the device; more columns go in several blocks
constexpr std::size_t kLeastColumns = 3;                  // in a block: see next_columns
constexpr std::size_t kBytesKept = std::size_t(64) << 20;  // for the next product

// Calls copy(packed, host, stride, count) for the runs of neighbouring elements that bytes [begin, begin + size) of a
// packed block, which lie at `chunk`, consist of.
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

// Makes room for as many of the columns as are sent together, and says how many those are.
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
void ColumnExchange<T>::send(const Block& block, const Columns<const T>& host, Stream stream) {
    if (block.bytes() == 0) return;
    if (!block.lies_like(host)) {
        const auto fill = [&](void* chunk, std::size_t begin, std::size_t size) {
            for_each_run<T>(static_cast<T*>(chunk), begin, size, host, block.by_rows, block.length,
                            [](T* to, const T* from, std::ptrdiff_t step, std::ptrdiff_t count) {
                                for (std::ptrdiff_t i = 0; i < count; ++i) to[i] = from[i * step];
                            });
        };
        staging_.upload(block.data, cuda::Fill(fill), block.bytes(), stream);
    } else if (cuda::is_pinned(host.data, block.bytes())) {
        cuda::copy_async(block.data, host.data, block.bytes(), stream);
    } else {
        staging_.upload(block.data, host.data, block.bytes(), stream);
    }
}

template <class T>
void ColumnExchange<T>::fetch(const Block& block, const Columns<T>& host, Stream stream) {
    if (block.lies_like(host) && cuda::is_pinned(host.data, block.bytes())) {
        cuda::copy_async(host.data, block.data, block.bytes(), stream);
        return;
    }
    const auto drain = [&](const void* chunk, std::size_t begin, std::size_t size) {
        for_each_run<T>(static_cast<const T*>(chunk), begin, size, host, block.by_rows, block.length,
                        [](const T* from, T* to, std::ptrdiff_t step, std::ptrdiff_t count) {
                            for (std::ptrdiff_t i = 0; i < count; ++i) to[i * step] = from[i];
                        });
    };
    staging_.download(drain, block.data, block.bytes(), stream);
}

template <class T>
void ColumnExchange<T>::run(const AnyMatrix<T>& matrix, const Product<T>& product) {
    if (product.columns == 0 || matrix.rows() == 0) return;
    const std::lock_guard lock(mutex_);
    const int ordinal = matrix.device().ordinal;
    const cuda::DeviceGuard guard(ordinal);
    const std::shared_ptr<void> stream = cuda::lease_stream(ordinal);
    const index_t most = reserve(matrix, product.columns);
    const bool takes_rows = matrix.takes_rows();
    for (index_t first = 0, count = 0; first < product.columns; first += count) {
        count = next_columns(product.columns - first, most);
        const Product<T> host = product.part(first, count);
        const auto block = [&](Array<T>& memory, index_t length, const Strides& strides) {
            return Block{memory.data(), length, host.columns, takes_rows && strides.row != 1};
        };
        const Block x = block(x_, matrix.cols(), host.x_strides), y = block(y_, matrix.rows(), host.y_strides);
        send(x, columns_of_x(host), stream.get());
        if (host.beta != T(0)) {
            const Columns<T> start = columns_of_y(host);
            send(y, {start.data, start.count, start.row_stride, start.column_stride}, stream.get());
        }
        Product<T> on_device{x.data, y.data, host.alpha, host.beta};
        on_device.columns = host.columns;
        on_device.x_strides = x.strides();
        on_device.y_strides = y.strides();
        matrix.spmv(on_device, stream.get());
        fetch(y, columns_of_y(host), stream.get());
    }
    cuda::synchronize(stream.get(), ordinal);
    if (x_.bytes() + y_.bytes() > kBytesKept) x_ = y_ = {};
}

template <class T>
std::size_t ColumnExchange<T>::nbytes() const {
    const std::lock_guard lock(mutex_);
    return x_.bytes() + y_.bytes();
}

#define INSTANTIATE(T) template class ColumnExchange<T>;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
