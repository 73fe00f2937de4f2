#include <algorithm>
#include <map>

#include "core/parallel.hpp"
#include "gpu/cuda/check.hpp"
#include "gpu/runtime.hpp"
#include "gpu/transfer.hpp"

namespace spmvgpu::cuda {

namespace {

// Blocks are kept for re-use up to this many bytes; page-locking costs far more than a transfer does.
constexpr std::size_t kMaxIdleBytes = std::size_t(1) << 30;

class PinnedPool {
public:
    void* take(std::size_t bytes) {
        const std::lock_guard lock(mutex_);
        auto found = idle_.find(bytes);
        void* block = nullptr;
        if (found != idle_.end()) {
            block = found->second;
            idle_.erase(found);
            idle_bytes_ -= bytes;
        } else {
            block = allocate(bytes);
        }
        in_use_[static_cast<char*>(block)] = bytes;
        return block;
    }

    void give_back(void* block) noexcept {
        const std::lock_guard lock(mutex_);
        const auto found = in_use_.find(static_cast<char*>(block));
        const std::size_t bytes = found->second;
        in_use_.erase(found);
        if (idle_bytes_ + bytes > kMaxIdleBytes) {
            cudaFreeHost(block);
        } else {
            idle_.emplace(bytes, block);
            idle_bytes_ += bytes;
        }
    }

    bool contains(const char* memory, std::size_t bytes) {
        const std::lock_guard lock(mutex_);
        auto after = in_use_.upper_bound(const_cast<char*>(memory));
        if (after == in_use_.begin()) return false;
        const auto& [block, size] = *std::prev(after);
        return memory + bytes <= block + size;
    }

private:
    void* allocate(std::size_t bytes) {
        void* block = nullptr;
        cudaError_t status = cudaHostAlloc(&block, bytes, cudaHostAllocPortable);
        if (status == cudaErrorMemoryAllocation) {  // what lies idle here may be what is missing
            cudaGetLastError();
            for (const auto& [size, idle] : idle_) cudaFreeHost(idle);
            idle_.clear();
            idle_bytes_ = 0;
            status = cudaHostAlloc(&block, bytes, cudaHostAllocPortable);
        }
        if (status == cudaErrorMemoryAllocation) {
            cudaGetLastError();
            throw OutOfMemory("page-locked host memory", bytes, free_host_memory());
        }
        check(status, "cudaHostAlloc");
        return block;
    }

    Mutex mutex_;
    std::multimap<std::size_t, void*> idle_;
    std::map<char*, std::size_t> in_use_;
    std::size_t idle_bytes_ = 0;
};

PinnedPool& pool() {
    // Never destroyed: arrays may outlive every other static, and at exit the driver frees the memory anyway.
    static PinnedPool* const instance = new PinnedPool;
    return *instance;
}

// Sizes are rounded up by at most an eighth, so that blocks of similar vectors can stand in for each other.
std::size_t size_class(std::size_t bytes) {
    std::size_t step = 4096;
    while (step * 8 < bytes) step *= 2;
    return (bytes + step - 1) / step * step;
}

// An upload goes in pieces, each copied by all threads together, which is faster than the bus; so two buffers keep it
// busy. Waking the threads and waiting for the last of them costs 10 to 20 us a piece, and a transfer some 2 us beside
// its bytes, so pieces are not small; nor so large that the first and the last one, which overlap with none, count.
std::size_t piece_bytes(std::size_t bytes) {
    constexpr std::size_t kLeast = 2 << 20, kMost = 16 << 20, kPieces = 16;
    std::size_t piece = kLeast;
    while (piece < kMost && piece * kPieces < bytes) piece *= 2;
    return piece;
}

std::shared_ptr<void> make_stream(int ordinal) {
    const DeviceGuard guard(ordinal);
    cudaStream_t stream;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    return {stream, [](void* s) { cudaStreamDestroy(static_cast<cudaStream_t>(s)); }};
}

}  // namespace

std::shared_ptr<void> allocate_pinned(std::size_t bytes) {
    return {pool().take(size_class(bytes)), [](void* block) { pool().give_back(block); }};
}

bool is_pinned(const void* memory, std::size_t bytes) {
    return pool().contains(static_cast<const char*>(memory), bytes);
}

void Staging::upload(void* device, const void* host, std::size_t bytes, Stream stream) {
    const auto copy = [host](void* chunk, std::size_t begin, std::size_t size) {
        streaming_copy(chunk, static_cast<const char*>(host) + begin, size);
    };
    upload(device, Fill(copy), bytes, stream);
}

Staging::Buffer& Staging::free_buffer(std::size_t number, std::size_t piece) {
    Buffer& buffer = buffers_[number % 2];
    if (!buffer.arrived) buffer.arrived.emplace();
    buffer.arrived->synchronize();
    if (buffer.size < piece) {
        buffer.memory = allocate_pinned(piece);
        buffer.size = piece;
    }
    return buffer;
}

void Staging::upload(void* device, const Fill& fill, std::size_t bytes, Stream stream) {
    const std::size_t step = piece_bytes(bytes);
    for (std::size_t begin = 0; begin < bytes; begin += step) {
        const std::size_t piece = std::min(step, bytes - begin);
        Buffer& buffer = free_buffer(begin / step, piece);
        char* const chunk = static_cast<char*>(buffer.memory.get());
        parallel_parts(piece, [&](std::size_t from, std::size_t to) { fill(chunk + from, begin + from, to - from); });
        check(cudaMemcpyAsync(static_cast<char*>(device) + begin, buffer.memory.get(), piece, cudaMemcpyHostToDevice,
                              native(stream)),
              "cudaMemcpyAsync");
        buffer.arrived->record(stream);
    }
}

void Staging::download(const Drain& drain, const void* device, std::size_t bytes, Stream stream) {
    const std::size_t step = piece_bytes(bytes);
    const auto fetch = [&](std::size_t begin) {
        if (begin >= bytes) return;
        const std::size_t piece = std::min(step, bytes - begin);
        Buffer& buffer = free_buffer(begin / step, piece);
        check(cudaMemcpyAsync(buffer.memory.get(), static_cast<const char*>(device) + begin, piece,
                              cudaMemcpyDeviceToHost, native(stream)),
              "cudaMemcpyAsync");
        buffer.arrived->record(stream);
    };
    fetch(0);
    for (std::size_t begin = 0; begin < bytes; begin += step) {
        fetch(begin + step);  // while this one is taken away
        const Buffer& buffer = buffers_[begin / step % 2];
        buffer.arrived->synchronize();
        const char* const chunk = static_cast<const char*>(buffer.memory.get());
        parallel_parts(std::min(step, bytes - begin),
                       [&](std::size_t from, std::size_t to) { drain(chunk + from, begin + from, to - from); });
    }
}

template <class T>
HostExchange<T>::HostExchange(index_t y_size, index_t x_size, int ordinal)
    : ordinal_(ordinal), x_(x_size, Device{ordinal}), y_(y_size, Device{ordinal}), stream_(make_stream(ordinal)) {}

template <class T>
void HostExchange<T>::send(void* device, const void* host, std::size_t bytes) {
    if (bytes == 0) return;
    if (is_pinned(host, bytes)) {
        check(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, native(stream_.get())), "cudaMemcpyAsync");
    } else {
        staging_.upload(device, host, bytes, stream_.get());
    }
}

template <class T>
void HostExchange<T>::begin(const Product<T>& host, const Crossing& crossing) {
    const DeviceGuard guard(ordinal_);
    if (!crossing.x_is_there && !crossing.fill_x) send(x_.data(), host.x, x_.bytes());
    if (!crossing.x_is_there && crossing.fill_x) staging_.upload(x_.data(), crossing.fill_x, x_.bytes(), stream_.get());
    if (host.beta != T(0)) send(y_.data(), host.y, y_.bytes());
}

template <class T>
void HostExchange<T>::finish(const Product<T>& host, bool is_stored) {
    const DeviceGuard guard(ordinal_);
    const bool direct = is_pinned(host.y, y_.bytes());
    const std::shared_ptr<void> staged = direct || y_.bytes() == 0 ? nullptr : allocate_pinned(y_.bytes());
    if (!is_stored && y_.bytes() > 0) {
        check(cudaMemcpyAsync(direct ? host.y : staged.get(), y_.data(), y_.bytes(), cudaMemcpyDeviceToHost,
                              native(stream_.get())),
              "cudaMemcpyAsync");
    }
    check(cudaStreamSynchronize(native(stream_.get())), "cudaStreamSynchronize");
    if (staged) parallel_copy(host.y, staged.get(), y_.bytes());
}

#define INSTANTIATE(T) template class HostExchange<T>;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu::cuda
