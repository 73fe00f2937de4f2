#include "core/memory.hpp"

#include <cstring>

#include "core/errors.hpp"
#include "core/parallel.hpp"
#include "core/system.hpp"
#include "gpu/memory.hpp"

namespace spmvgpu {

namespace {

constexpr std::size_t kAlignment = 64;

// The first write to memory costs as much per page for a small page as for a huge one: so pages are few and huge, as in
// NumPy.
constexpr std::size_t kWorthHugePages = 4 << 20;

std::shared_ptr<void> allocate_host(std::size_t bytes) {
    auto memory = system::allocate(bytes, bytes < kWorthHugePages ? kAlignment : system::kHugePage);
    if (memory == nullptr) throw OutOfMemory("cpu", bytes, free_host_memory());
    return memory;
}

}  // namespace

std::size_t free_host_memory() { return system::free_memory(); }

std::shared_ptr<void> allocate(std::size_t bytes, Device device) {
    if (bytes == 0) return {};
    return device.is_gpu() ? gpu::allocate(bytes, device.ordinal) : allocate_host(bytes);
}

void copy_bytes(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes) {
    if (bytes == 0) return;
    if (!to_device.is_gpu() && !from_device.is_gpu()) {
        parallel_copy(to, from, bytes);
    } else {
        gpu::copy(to, to_device, from, from_device, bytes);
    }
}

void set_zero(void* memory, Device device, std::size_t bytes) {
    if (bytes == 0) return;
    if (device.is_gpu()) return gpu::set_zero(memory, bytes, device.ordinal);
    std::memset(memory, 0, bytes);
}

}  // namespace spmvgpu
