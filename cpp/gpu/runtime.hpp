// The door to GPUs: what the rest of the library asks of them, with no header of a vendor. What takes a Device may be
// asked of the CPU too, where there is nothing to be waited for, to be made current or to be queued. gpu/cuda
// implements it; gpu/none, in a build without CUDA, says that there is no GPU: device_count() is 0, and what only a GPU
// can do throws CudaError.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "core/types.hpp"

namespace spmvgpu::gpu {

struct Properties {
    std::string model;
    int multiprocessors = 0;
    int major = 0, minor = 0;  // compute capability
    std::size_t l2_bytes = 0;
    double clock = 0;             // of the multiprocessors, a second
    double memory_bandwidth = 0;  // bytes a second
};

struct Memory {
    std::size_t free = 0, total = 0;
    std::size_t idle = 0;  // kept by the library's pool, which others do not find free
};

int device_count() noexcept;  // of GPUs; 0 without a driver or a device; never throws
std::string version();        // of the CUDA runtime in use, or why there is none

// Of a GPU.
const Properties& properties(int ordinal);
std::string pci_bus_id(int ordinal);  // which of the GPUs of a host it is, whatever a process calls it
Memory memory(int ordinal);
void release_idle_memory(int ordinal);  // gives it back what its pool keeps

// Throws OutOfMemory where a GPU has not as much. Host memory is not asked for: it is only given once it is written.
void require_memory(std::size_t bytes, Device device);

void synchronize(Stream stream, Device device);
// Waits for all streams of a device, though some may be captured.
void synchronize_device(Device device);
bool is_capturing(Stream stream, Device device);  // whether work put on the stream goes into a graph, to run later

// The device that a pointer lives on; Device{} for host memory.
Device device_of(const void* pointer);

// Makes a device current for a scope.
class DeviceGuard {
public:
    explicit DeviceGuard(Device device);
    ~DeviceGuard();
    DeviceGuard(const DeviceGuard&) = delete;
    DeviceGuard& operator=(const DeviceGuard&) = delete;

private:
    int previous_ = Device::kCpu;  // if another one was current
};

}  // namespace spmvgpu::gpu
