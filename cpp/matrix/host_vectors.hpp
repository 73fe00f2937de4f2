// Products with vectors in host memory, one or several, with any strides. On the CPU a matrix reads them in place, or
// in copies of a few columns. To a GPU they cross the bus once in each direction: one contiguous vector directly
// (VectorExchange), several columns packed on the way as the matrix needs them (ColumnExchange).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "core/array.hpp"
#include "core/columns.hpp"
#include "core/mutex.hpp"
#include "gpu/transfer.hpp"
#include "matrix/any_matrix.hpp"

namespace spmvgpu {

// The product of a matrix on the CPU, or of one that sends every vector to its devices itself. A matrix that multiplies
// rows of x at once does so; any other gets the vectors one by one. Every column has the bits of the product with it
// alone.
template <class T>
void multiply_in_host_memory(const AnyMatrix<T>& matrix, const Product<T>& product);

// The way of x and y over the bus: by default both are copied.
struct Crossing {
    std::uint64_t x_version = 0;  // version of an x that the device may have from the product before; 0: send it
    gpu::Fill fill_x;             // makes the data that the device gets as x, if that is not x itself
    bool store_y = false;         // the kernel writes whole lines of y, once: it may store them over the bus directly
};

// The copies of x and y on a GPU, and the stream, for products with one contiguous vector. The first product makes
// them.
template <class T>
class VectorExchange {
public:
    // Runs multiply(product with device pointers, stream) between the transfers of x (and y, if beta != 0) and of y,
    // with these lengths. Complete when it returns. Threads take turns.
    template <class Multiply>
    void run(const Product<T>& host, std::size_t x_size, std::size_t y_size, Device device, Multiply&& multiply,
             const Crossing& crossing = {}) {
        const std::lock_guard lock(mutex_);
        begin(host, x_size, y_size, device, crossing);
        const bool store_y = crossing.store_y && can_be_stored(host);
        multiply(Product<T>{x_.data(), store_y ? host.y : y_.data(), host.alpha, host.beta}, stream_.get());
        finish(host, store_y);
        sent_version_ = crossing.x_version;
    }

    std::size_t nbytes() const { return bytes_; }

private:
    void begin(const Product<T>& host, std::size_t x_size, std::size_t y_size, Device device, const Crossing& crossing);
    void finish(const Product<T>& host, bool is_stored);
    bool can_be_stored(const Product<T>& host) const;

    Mutex mutex_;
    Array<T> x_, y_;
    gpu::Staging staging_;
    std::shared_ptr<void> stream_;
    std::uint64_t sent_version_ = 0;  // version of x on the device, or 0
    std::atomic<std::size_t> bytes_ = 0;
};

// Products with several columns, or with vectors that have gaps. As many columns as fit cross together.
template <class T>
class ColumnExchange {
public:
    // Complete when it returns. Threads take turns.
    void run(const AnyMatrix<T>& matrix, const Product<T>& product);

    std::size_t nbytes() const;

private:
    index_t reserve(const AnyMatrix<T>& matrix, index_t columns);
    void send(const Columns<T>& block, index_t length, const Columns<const T>& host, Stream stream);
    void fetch(const Columns<T>& block, index_t length, const Columns<T>& host, Stream stream);

    mutable Mutex mutex_;
    Array<T> x_, y_;
    gpu::Staging staging_;
};

// Both kinds of exchange for one matrix.
template <class T>
class HostVectors {
public:
    void run(const AnyMatrix<T>& matrix, const Product<T>& product) {
        const Device device = matrix.device();
        const bool is_of_vectors = product.is_of_vectors();
        if (!device.has_own_memory()) {
            return is_of_vectors ? matrix.spmv(product, nullptr) : multiply_in_host_memory(matrix, product);
        }
        if (!is_of_vectors) return columns_.run(matrix, product);
        vector_.run(product, matrix.cols(), matrix.rows(), device,
                    [&](const Product<T>& on_device, Stream stream) { matrix.spmv(on_device, stream); });
    }

    VectorExchange<T>& vector() { return vector_; }
    std::size_t nbytes() const { return vector_.nbytes() + columns_.nbytes(); }

private:
    VectorExchange<T> vector_;
    ColumnExchange<T> columns_;
};

}  // namespace spmvgpu
