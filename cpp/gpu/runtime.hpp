// The interface to GPUs for the rest of the library, without headers of a vendor. Functions with a Device may be called
// for the CPU too, where nothing is waited for, made current or queued. gpu/cuda implements it; gpu/none, in a build
// without CUDA, has no GPU: device_count() is 0, and functions that only a GPU can perform throw CudaError.
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
    double clock = 0;             // multiprocessor cycles per second
    double memory_bandwidth = 0;  // bytes per second
};

struct Memory {
    std::size_t free = 0, total = 0;
    std::size_t idle = 0;  // kept by the library's pool, and not free for others
};

// The driver of the GPUs, and why it gives none.
struct Driver {
    int version = 0;    // newest CUDA that the driver knows, 1000 major + 10 minor; 0 without a driver
    int needed = 0;     // CUDA of this build
    std::string error;  // why the devices cannot be listed; empty if there are none, or no driver
};

int device_count() noexcept;  // number of GPUs; 0 if there are none or they cannot be listed; never throws
Driver driver();
std::string version();  // version of the CUDA runtime in use, or why there is none

const Properties& properties(int ordinal);
std::string pci_bus_id(int ordinal);  // identifies a GPU of a host in all processes
Memory memory(int ordinal);
void release_idle_memory(int ordinal);  // returns the memory that the pool keeps to the device

// Throws OutOfMemory if a GPU has less. Host memory is not checked: the system provides it when it is written.
void require_memory(std::size_t bytes, Device device);

void synchronize(Stream stream, Device device);
// Waits for all streams of a device, though some may be captured.
void synchronize_device(Device device);
bool is_capturing(Stream stream, Device device);  // true if work on the stream is captured into a graph, to run later

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
