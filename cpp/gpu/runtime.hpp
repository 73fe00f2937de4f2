// The CUDA runtime as the rest of the library sees it; no CUDA header needed. Built without CUDA, gpu/none/none.cpp
// stands in: device_count() is 0 and everything else throws CudaError.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "core/types.hpp"
#include "gpu/memory.hpp"

namespace spmvgpu::cuda {

struct Properties {
    std::string model;
    int multiprocessors = 0;
    int major = 0, minor = 0;  // compute capability
    std::size_t l2_bytes = 0;
};

struct Memory {
    std::size_t free = 0, total = 0;
    std::size_t idle = 0;  // kept by the library's pool, which others do not find free
};

int device_count() noexcept;  // 0 without a driver or a device; never throws
std::string version();        // of the CUDA runtime in use, or why there is none

const Properties& properties(int ordinal);
std::string pci_bus_id(int ordinal);  // which of the GPUs of a host it is, whatever a process calls it
Memory memory(int ordinal);
void require_memory(std::size_t bytes, int ordinal);  // throws OutOfMemory where there is not as much

void set_zero(void* memory, std::size_t bytes, int ordinal);  // complete when it returns

void synchronize(Stream stream, int ordinal);
// Waits for all streams of a device, though some may be captured.
void synchronize_device(int ordinal);
bool is_capturing(Stream stream);  // whether work put on the stream goes into a graph, to run later

// The device that a pointer lives on; Device{} for host memory that CUDA does not know.
Device device_of(const void* pointer);

// How many launches are timed: `repeats` batches, after `warmups` others.
struct Series {
    int batch, warmups, repeats;

    int launches() const { return 1 + batch * (warmups + repeats); }
};

// Median microseconds of one launch(stream), from replays of a graph that holds a batch of them. Launches once before,
// for whatever a first launch allocates.
double time_launches(const std::function<void(Stream)>& launch, const Series& series, int ordinal);

// Makes a device current for a scope.
class DeviceGuard {
public:
    explicit DeviceGuard(int ordinal);
    ~DeviceGuard();
    DeviceGuard(const DeviceGuard&) = delete;
    DeviceGuard& operator=(const DeviceGuard&) = delete;

private:
    int previous_ = 0;
};

// Lets a thread allocate and free in a scope while streams are captured, its own and others. CUDA refuses that for
// captures of its global mode, and those of the same thread, and ends them, as work that is queued may wait for work
// that is recorded; what is done under this guard must not.
class RelaxedCaptures {
public:
    RelaxedCaptures() noexcept;
    ~RelaxedCaptures();
    RelaxedCaptures(const RelaxedCaptures&) = delete;
    RelaxedCaptures& operator=(const RelaxedCaptures&) = delete;

private:
    int previous_;
};

}  // namespace spmvgpu::cuda
