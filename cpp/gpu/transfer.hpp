// Transfers between host memory and a GPU at the speed of the bus: through page-locked buffers that several threads
// fill while the transfer of the buffers that they filled before is in progress.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>

#include "core/types.hpp"
#include "gpu/stream.hpp"

namespace spmvgpu::gpu {

// Page-locked host memory from a process-wide pool, to which it returns with its last owner.
std::shared_ptr<void> allocate_pinned(std::size_t bytes);

// Returns true if memory lies in a block of that pool that is in use, so that it can be transferred directly.
bool is_pinned(const void* memory, std::size_t bytes);

// Host memory for transfers with a device: page-locked, unless that is the CPU itself.
std::shared_ptr<void> allocate_for_transfers(std::size_t bytes, Device device);

// Writes bytes [begin, begin + size) of the outgoing data to `chunk`; called by several threads at once.
using Fill = std::function<void(void* chunk, std::size_t begin, std::size_t size)>;

// Reads bytes [begin, begin + size) of the incoming data, which are at `chunk`; called by several threads at once.
using Drain = std::function<void(const void* chunk, std::size_t begin, std::size_t size)>;

// Page-locked buffers for transfers between ordinary memory and one device, which must be current. Only one thread may
// use them at a time.
class Staging {
public:
    // Returns when `host` may be changed; the data arrive in the order of the stream. Host memory that is already
    // page-locked is sent directly, and must not be changed before the data have arrived.
    void upload(void* device, const void* host, std::size_t bytes, Stream stream);
    // Sends data that are produced meanwhile: begin and size are multiples of 64 except at the end.
    void upload(void* device, const Fill& fill, std::size_t bytes, Stream stream);
    // Fetches data that are consumed as they arrive. Complete when it returns.
    void download(const Drain& drain, const void* device, std::size_t bytes, Stream stream);

private:
    struct Buffer {
        std::shared_ptr<void> memory;
        std::size_t size = 0;
        std::optional<Event> arrived;  // the last transfer out of this buffer, or into it, is over
    };
    Buffer& free_buffer(std::size_t number, std::size_t piece);  // the buffer for the piece with that number

    Buffer buffers_[2];
};

}  // namespace spmvgpu::gpu
