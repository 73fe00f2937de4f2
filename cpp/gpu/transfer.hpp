// NumPy arrays to and from the GPU at the speed of the bus: through page-locked buffers that several threads fill while
// the transfer of what they filled before is under way.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>

#include "core/array.hpp"
#include "core/mutex.hpp"
#include "core/types.hpp"
#include "gpu/stream.hpp"

namespace spmvgpu::cuda {

// Page-locked host memory from a process-wide pool; it goes back there with its last owner.
std::shared_ptr<void> allocate_pinned(std::size_t bytes);

// Whether memory lies in a block of that pool that is in use, so that it can be transferred directly.
bool is_pinned(const void* memory, std::size_t bytes);

// Writes bytes [begin, begin + size) of what is to be sent to `chunk`; called by several threads at once.
using Fill = std::function<void(void* chunk, std::size_t begin, std::size_t size)>;

// Takes bytes [begin, begin + size) of what has come, which are at `chunk`; called by several threads at once.
using Drain = std::function<void(const void* chunk, std::size_t begin, std::size_t size)>;

// Page-locked buffers for transfers from and to ordinary memory, to one device. Not for two threads at once.
class Staging {
public:
    // Returns when `host` may be changed; the data arrive in the order of the stream.
    void upload(void* device, const void* host, std::size_t bytes, Stream stream);
    // The same for data that are made as they are sent, begin and size being multiples of 64 but at the end.
    void upload(void* device, const Fill& fill, std::size_t bytes, Stream stream);
    // Data that are taken away as they come. Complete when it returns.
    void download(const Drain& drain, const void* device, std::size_t bytes, Stream stream);

private:
    struct Buffer {
        std::shared_ptr<void> memory;
        std::size_t size = 0;
        std::optional<Event> arrived;  // the last transfer out of this buffer, or into it, is over
    };
    Buffer& free_buffer(std::size_t number, std::size_t piece);  // for the piece of that number

    Buffer buffers_[2];
};

// How x and y of a product with host vectors cross the bus: by default both are copied.
struct Crossing {
    bool x_is_there = false;  // the device has it from the product before
    Fill fill_x;              // makes what the device is to have for x, if that is not x itself
    bool store_y = false;     // the kernel writes whole lines of y, once: it may store them over the bus as it goes
};

// The device copies of x and y of one operator, for products whose vectors are in host memory.
template <class T>
class HostExchange {
public:
    HostExchange(index_t y_size, index_t x_size, int ordinal);

    // Runs multiply(product with device pointers, stream) between the transfers of x (and y, if beta != 0) and of y.
    // Complete when it returns. Threads take turns.
    template <class Multiply>
    void run(const Product<T>& host, Multiply&& multiply, const Crossing& crossing = {}) {
        const std::lock_guard lock(mutex_);
        begin(host, crossing);
        // Whole values are stored at once, for which NumPy may have placed them otherwise.
        const bool is_aligned = reinterpret_cast<std::uintptr_t>(host.y) % sizeof(T) == 0;
        const bool store_y = crossing.store_y && host.beta == T(0) && is_aligned && is_pinned(host.y, y_.bytes());
        multiply(Product<T>{x_.data(), store_y ? host.y : y_.data(), host.alpha, host.beta}, stream_.get());
        finish(host, store_y);
    }

    std::size_t nbytes() const { return x_.bytes() + y_.bytes(); }

private:
    void begin(const Product<T>& host, const Crossing& crossing);
    void finish(const Product<T>& host, bool is_stored);
    void send(void* device, const void* host, std::size_t bytes);

    int ordinal_;
    Mutex mutex_;
    Array<T> x_, y_;
    Staging staging_;
    std::shared_ptr<void> stream_;
};

// A HostExchange that the first product makes.
template <class T>
class LazyExchange {
public:
    HostExchange<T>& get(index_t y_size, index_t x_size, int ordinal) {
        const std::lock_guard lock(mutex_);
        if (!made_) made_ = std::make_unique<HostExchange<T>>(y_size, x_size, ordinal);
        return *made_;
    }

    std::size_t nbytes() const {
        const std::lock_guard lock(mutex_);
        return made_ ? made_->nbytes() : 0;
    }

private:
    mutable Mutex mutex_;
    std::unique_ptr<HostExchange<T>> made_;
};

}  // namespace spmvgpu::cuda
