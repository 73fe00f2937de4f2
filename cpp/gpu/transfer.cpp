#include "gpu/transfer.hpp"

#include <algorithm>

#include "core/memory.hpp"
#include "core/parallel.hpp"

namespace spmvgpu::gpu {

namespace {

// An upload goes in pieces, each copied by all threads together, which is faster than the bus, so two buffers keep it
// busy. Waking the threads and waiting for the last of them costs 10 to 20 us a piece, and a transfer some 2 us beside
// its bytes, so pieces are not small; nor are they so large that the first and the last one, which overlap with none,
// matter.
std::size_t piece_bytes(std::size_t bytes) {
    constexpr std::size_t kLeast = 2 << 20, kMost = 16 << 20, kPieces = 16;
    std::size_t piece = kLeast;
    while (piece < kMost && piece * kPieces < bytes) piece *= 2;
    return piece;
}

}  // namespace

std::shared_ptr<void> allocate_for_transfers(std::size_t bytes, Device device) {
    return device.has_own_memory() ? allocate_pinned(std::max<std::size_t>(bytes, 1))
                                   : spmvgpu::allocate(bytes, Device{});
}

void Staging::upload(void* device, const void* host, std::size_t bytes, Stream stream) {
    if (is_pinned(host, bytes)) return copy_async(device, host, bytes, stream);
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
        copy_async(static_cast<char*>(device) + begin, chunk, piece, stream);
        buffer.arrived->record(stream);
    }
}

void Staging::download(const Drain& drain, const void* device, std::size_t bytes, Stream stream) {
    const std::size_t step = piece_bytes(bytes);
    const auto fetch = [&](std::size_t begin) {
        if (begin >= bytes) return;
        const std::size_t piece = std::min(step, bytes - begin);
        Buffer& buffer = free_buffer(begin / step, piece);
        copy_async(buffer.memory.get(), static_cast<const char*>(device) + begin, piece, stream);
        buffer.arrived->record(stream);
    };
    fetch(0);
    for (std::size_t begin = 0; begin < bytes; begin += step) {
        fetch(begin + step);  // while this piece is drained
        const Buffer& buffer = buffers_[begin / step % 2];
        buffer.arrived->synchronize();
        const char* const chunk = static_cast<const char*>(buffer.memory.get());
        parallel_parts(std::min(step, bytes - begin),
                       [&](std::size_t from, std::size_t to) { drain(chunk + from, begin + from, to - from); });
    }
}

}  // namespace spmvgpu::gpu
