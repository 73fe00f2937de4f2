// Data in host memory to and from a GPU at the speed of the bus: through page-locked buffers that several threads fill
// while the transfer of what they filled before is under way.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>

#include "core/types.hpp"
#include "gpu/stream.hpp"

namespace spmvgpu::gpu {

// Page-locked host memory from a process-wide pool; it goes back there with its last owner.
std::shared_ptr<void> allocate_pinned(std::size_t bytes);

// Whether memory lies in a block of that pool that is in use, so that it can be transferred directly.
bool is_pinned(const void* memory, std::size_t bytes);

// Host memory for what goes to a device or comes from there: page-locked, unless that is the CPU itself.
std::shared_ptr<void> allocate_for_transfers(std::size_t bytes, Device device);

// Writes bytes [begin, begin + size) of what is to be sent to `chunk`; called by several threads at once.
using Fill = std::function<void(void* chunk, std::size_t begin, std::size_t size)>;

// Takes bytes [begin, begin + size) of what has come, which are at `chunk`; called by several threads at once.
using Drain = std::function<void(const void* chunk, std::size_t begin, std::size_t size)>;

// Page-locked buffers for transfers from and to ordinary memory, to one device, which must be current. Not for two
// threads at once.
class Staging {
public:
    // Returns when `host` may be changed; the data arrive in the order of the stream. Host memory that is page-locked
    // already is sent as it is, and must not be changed before they have.
    void upload(void* device, const void* host, std::size_t bytes, Stream stream);
    // Sends data that are made meanwhile: begin and size are multiples of 64 but at the end.
    void upload(void* device, const Fill& fill, std::size_t bytes, Stream stream);
    // Fetches data that are taken away as they come. Complete when it returns.
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

}  // namespace spmvgpu::gpu
